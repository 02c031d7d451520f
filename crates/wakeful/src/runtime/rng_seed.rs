//! The seed of a runtime's random numbers.

/// A seed for the random numbers of a runtime.
///
/// A runtime draws random numbers for the first branch of `select!` and for the worker that a thief
/// tries first. Without a given seed, each runtime draws its own. Pass a seed to
/// [`Builder::rng_seed`] or [`Builder::shuffle_tasks`] to repeat a run.
///
/// # Examples
///
/// ```
/// use wakeful::runtime::{Builder, RngSeed};
///
/// let seed = RngSeed::from_bytes(b"a test that failed");
/// let runtime = Builder::new_current_thread().rng_seed(seed).build()?;
/// # drop(runtime);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// [`Builder::rng_seed`]: super::Builder::rng_seed
/// [`Builder::shuffle_tasks`]: super::Builder::shuffle_tasks
#[derive(Clone, Debug)]
pub struct RngSeed(pub(super) u64);

impl RngSeed {
    /// Creates a seed from bytes; equal bytes give equal seeds in every build.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::RngSeed;
    ///
    /// let from_number = RngSeed::from_bytes(&42u64.to_le_bytes());
    /// let from_text = RngSeed::from_bytes(b"nightly run 7");
    /// # drop((from_number, from_text));
    /// ```
    pub fn from_bytes(bytes: &[u8]) -> Self {
        // FNV-1a does not depend on the build, unlike the standard library's hasher.
        let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        Self(bytes.iter().fold(0xcbf2_9ce4_8422_2325, fold))
    }
}
