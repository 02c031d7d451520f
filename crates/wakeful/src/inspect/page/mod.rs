//! The live page: shows in a browser why tasks are not running.
//!
//! ```text
//! diagram
//!   serve() ──► accept() ──► a thread per connection ──► read() ──► check() ──► answer()
//!                  │                                     request    access      route ──► api
//!                  └──► sample() once a second ──► History
//! ```
//!
//! - `server`: the listener, its threads and its limits.
//! - `request`, `response`: HTTP/1.1, one request per connection.
//! - `access`: the token, the cookie and the `Host` rule; `peer_user`: the user of a local client.
//! - `assets`: the files of the page itself (`web/`), compressed by the build script.
//! - `api`: the JSON API, from snapshots of all runtimes.
//! - `history`: the samples of the last ten minutes.
//! - `advertise`: passes the URL of a process to `cargo wakeful top`.
//!
//! The server only reads, except that it aborts tasks and turns flight recorders on. It polls no
//! task and stops no worker. Of the locks that workers take, it takes only those of lists, such as
//! the injector's, to count their entries. It uses std's sockets on threads of its own, so it
//! answers while every worker is blocked.

mod access;
mod advertise;
mod api;
mod assets;
mod history;
mod peer_user;
mod request;
mod response;
mod server;

use crate::sys::sync::ignore_poison;
use advertise::Advertisement;
use server::Server;
use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, OnceLock};

/// Serves the live page at `address`, for all runtimes of the process.
///
/// `address` is `127.0.0.1:0` for any free port, another address and port, or `unix:PATH` for a Unix
/// socket. The page ends when the returned [`Page`] is dropped. [`Page::url`] contains the token,
/// without which the server answers no request. Pass it only to people who may see the program's
/// state.
///
/// The environment variable `WAKEFUL_PAGE=1` does the same without a change of the program, and
/// prints the URL to standard error. `docs/PAGE.md` describes the screens and the JSON API.
///
/// # Errors
///
/// Returns an error if the address cannot be parsed or bound, or if no thread can be started.
///
/// # Examples
///
/// ```
/// let page = wakeful::inspect::page::serve("127.0.0.1:0")?;
/// assert!(page.url().starts_with("http://127.0.0.1:"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn serve(address: &str) -> io::Result<Page> {
    Options::new(address).serve()
}

/// A builder of a live page, with settings that [`serve`] does not have.
///
/// # Examples
///
/// ```
/// use wakeful::inspect::page::Options;
///
/// let page = Options::new("127.0.0.1:0").allow_abort(true).serve()?;
/// println!("{}", page.url());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    address: String,
    allow_abort: bool,
    token: Option<String>,
}

impl Options {
    /// Creates settings for a page at `address`, which [`serve`] describes.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::inspect::page::Options;
    ///
    /// let page = Options::new("127.0.0.1:0").serve()?;
    /// assert!(page.url().starts_with("http://127.0.0.1:"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new(address: impl Into<String>) -> Self {
        Self { address: address.into(), allow_abort: false, token: None }
    }

    /// Sets whether the page may abort tasks.
    ///
    /// The default is false. With true, the deadlock detector ends no `block_on` whose tasks are in
    /// a deadlock while the page is served, because an abort could end the wait.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::inspect::page::Options;
    ///
    /// let _page = Options::new("127.0.0.1:0").allow_abort(true).serve()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn allow_abort(mut self, allow: bool) -> Self {
        self.allow_abort = allow;
        self
    }

    /// Sets the token, for clients that must know it before the program starts, such as Prometheus.
    ///
    /// The token is a secret of 32 hexadecimal digits, and random by default. The environment
    /// variable `WAKEFUL_PAGE_TOKEN` sets the token of pages started by `WAKEFUL_PAGE` or
    /// [`Builder::page`](crate::runtime::Builder::page).
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::inspect::page::Options;
    ///
    /// let token = "8f2f0d3c9be14a57a3c06e51d7b49c02";
    /// let page = Options::new("127.0.0.1:0").token(token).serve()?;
    /// assert!(page.url().ends_with(token));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Starts the server.
    ///
    /// # Errors
    ///
    /// Returns an error if the address cannot be parsed or bound, if the token is not 32
    /// hexadecimal digits, or if no thread can be started.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::inspect::page::Options;
    ///
    /// let error = Options::new("no address").serve().unwrap_err();
    /// println!("{error}");
    /// # let _page = Options::new("127.0.0.1:0").serve()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn serve(&self) -> io::Result<Page> {
        Ok(Page { server: Server::start(self)? })
    }
}

/// A live page that is being served. Dropping it ends the page.
///
/// # Examples
///
/// ```
/// let page = wakeful::inspect::page::serve("127.0.0.1:0")?;
/// println!("open {}", page.url());
/// drop(page);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Page {
    server: Arc<Server>,
}

impl Page {
    /// Returns the URL with the token, or the path of the Unix socket.
    ///
    /// # Examples
    ///
    /// ```
    /// let page = wakeful::inspect::page::serve("127.0.0.1:0")?;
    /// println!("open {}", page.url());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Does the page's work of one second, so that a test needs no hour for an hour of history.
    #[cfg(feature = "test-util")]
    #[doc(hidden)]
    pub fn step(&self) {
        self.server.step_now();
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.server.stop();
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Page").finish_non_exhaustive()
    }
}

/// The page of the process: started by `WAKEFUL_PAGE`, or else by the first `Builder::page`.
static OF_PROCESS: Mutex<ProcessPage> = Mutex::new(ProcessPage::None);

enum ProcessPage {
    None,
    /// An attempt was made. If it failed, the message was printed.
    Started(
        #[allow(dead_code, reason = "keeps the page alive")] Option<(Page, Option<Advertisement>)>,
    ),
}

/// The environment variable that turns the page on.
const VARIABLE: &str = "WAKEFUL_PAGE";
/// The environment variable that sets the token.
const TOKEN_VARIABLE: &str = "WAKEFUL_PAGE_TOKEN";

/// Starts the page of the process if `WAKEFUL_PAGE` or the builder's `address` asks for one.
///
/// Only the first call with a request starts the page. The URL, or the error, is printed to
/// standard error once.
pub(crate) fn start_of_process(address: Option<&str>) {
    static VALUE: OnceLock<Option<String>> = OnceLock::new();
    let variable = VALUE.get_or_init(|| {
        std::env::var_os(VARIABLE).map(|value| value.to_string_lossy().into_owned())
    });
    let Some(address) = requested(variable.as_deref(), address) else { return };
    let mut page = ignore_poison(OF_PROCESS.lock());
    if matches!(*page, ProcessPage::Started(_)) {
        return;
    }
    let mut options = Options::new(address);
    options.token = std::env::var_os(TOKEN_VARIABLE).map(|it| it.to_string_lossy().into_owned());
    let served = options.serve();
    let text = match &served {
        Ok(page) => format!("wakeful: live page at {}\n", page.url()),
        Err(error) => format!(
            "wakeful: no live page: {error}. Set {VARIABLE} to 1, to an address such as \
             127.0.0.1:7000, or to unix:PATH, and {TOKEN_VARIABLE} to 32 hexadecimal digits or not \
             at all.\n"
        ),
    };
    // Not `eprint!`: a test harness captures that.
    let _ = io::stderr().write_all(text.as_bytes());
    // Without the file, `cargo wakeful top` needs the URL. The page works all the same.
    let advertise = |page: Page| {
        let advertisement = Advertisement::new(&page.url(), page.server.code_url().as_deref()).ok();
        (page, advertisement)
    };
    *page = ProcessPage::Started(served.ok().map(advertise));
}

/// Returns the address at which the page is to be served. The environment has precedence.
fn requested<'a>(variable: Option<&'a str>, builder: Option<&'a str>) -> Option<&'a str> {
    match variable {
        Some("0" | "off" | "") => None,
        Some("1" | "on") => Some("127.0.0.1:0"),
        Some(address) => Some(address),
        None => builder,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::requested;

    #[test]
    fn the_environment_has_precedence_over_the_builder() {
        let any = Some("127.0.0.1:0");
        assert_eq!(requested(None, None), None);
        assert_eq!(requested(None, Some("[::1]:1")), Some("[::1]:1"));
        assert_eq!(requested(Some("1"), Some("[::1]:1")), any);
        assert_eq!(requested(Some("off"), Some("[::1]:1")), None);
        assert_eq!(requested(Some("unix:/run/page"), None), Some("unix:/run/page"));
    }
}
