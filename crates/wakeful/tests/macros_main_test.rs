//! `#[main]` and `#[test]`: every shape of function and every argument, checked inside the runtime.
#![deny(unused, unused_qualifications)]

use std::cell::Cell;
use std::error::Error;
use std::fmt::Debug;
use std::future::ready;
use std::panic::catch_unwind;
use std::rc::Rc;
use std::time::Duration;

use wakeful::runtime::{Handle, RuntimeFlavor};
use wakeful::time::Instant;

mod shapes {
    use super::*;

    #[wakeful::main]
    pub(crate) async fn unit() {
        wakeful::spawn(async {}).await.unwrap();
    }

    #[wakeful::main]
    async fn question_mark(text: &str) -> Result<u32, Box<dyn Error>> {
        let n: u32 = text.parse()?;
        ready(()).await;
        Ok(n)
    }

    #[wakeful::main]
    async fn coerced(fail: bool) -> Result<(), Box<dyn Error>> {
        if fail {
            // Coerces only where the return type is already known.
            return Err(Box::new(std::fmt::Error));
        }
        Ok(())
    }

    #[wakeful::main]
    async fn closure() -> Box<dyn Fn(u32) -> u32> {
        Box::new(|n| n + 1)
    }

    #[wakeful::main]
    async fn early(n: u32) -> &'static str {
        if n > 1 {
            return "many";
        }
        match n {
            0 => return "none",
            _ => ready(()).await,
        }
        "one"
    }

    #[wakeful::main]
    async fn never(message: String) -> ! {
        panic!("{message}")
    }

    #[wakeful::main]
    async fn opaque() -> impl Iterator<Item = impl Debug> {
        [1, 2].into_iter()
    }

    #[wakeful::main]
    async fn generic<'a, T: Iterator<Item = Option<fn() -> u8>>, const N: usize>(
        first: &'a str,
        items: T,
    ) -> (&'a str, Vec<u8>)
    where
        <T as Iterator>::Item: Debug,
    {
        ready(()).await;
        (&first[..N], items.map(|f| f.unwrap()()).collect())
    }

    /// # Safety
    ///
    /// `pointer` points to a live byte.
    #[wakeful::main]
    async unsafe fn not_safe(pointer: *const u8) -> u8 {
        // SAFETY: the caller gives a pointer to a live byte.
        unsafe { *pointer }
    }

    #[wakeful::main]
    async extern "C" fn foreign(n: u8) -> u8 {
        n + 1
    }

    /// With documentation, and with an attribute inside.
    #[wakeful::main]
    #[must_use]
    #[allow(clippy::mixed_attributes_style)]
    async fn attributes() -> u8 {
        #![allow(unused_variables)]
        let unused = 0;
        1
    }

    #[test]
    fn all_of_them() {
        unit();
        assert_eq!(question_mark("7").unwrap(), 7);
        assert_eq!(question_mark("x").unwrap_err().to_string(), "invalid digit found in string");
        assert!(coerced(false).is_ok() && coerced(true).is_err());
        assert_eq!(closure()(1), 2);
        assert_eq!((early(0), early(1), early(2)), ("none", "one", "many"));
        let panic = catch_unwind(|| never("as told".into())).unwrap_err();
        assert_eq!(panic.downcast_ref::<String>().unwrap(), "as told");
        assert_eq!(format!("{:?}", opaque().collect::<Vec<_>>()), "[1, 2]");
        let items: [Option<fn() -> u8>; 2] = [Some(|| 1), Some(|| 2)];
        assert_eq!(generic::<_, 3>("waking", items.into_iter()), ("wak", vec![1, 2]));
        // SAFETY: a pointer to a constant.
        assert_eq!(unsafe { not_safe(&5) }, 5);
        assert_eq!(foreign(1) + attributes(), 3);
    }
}

mod methods {
    struct Counter(u32);

    impl Counter {
        #[wakeful::main]
        async fn add(&mut self, n: u32) -> &mut Self {
            self.0 += n;
            self
        }
    }

    trait Consume {
        fn consume(self) -> u32;
    }

    impl Consume for Counter {
        #[wakeful::main]
        async fn consume(self) -> u32 {
            self.0
        }
    }

    #[test]
    fn take_self_in_any_way() {
        let mut counter = Counter(1);
        counter.add(2).add(3);
        assert_eq!(counter.consume(), 6);
    }
}

mod through_macro_rules {
    macro_rules! function {
        ($(#[$attribute:meta])* $visibility:vis $name:ident($threads:literal) -> $output:ty $body:block) => {
            $(#[$attribute])*
            #[wakeful::main(worker_threads = $threads)]
            $visibility async fn $name() -> $output $body
        };
    }

    function! {
        /// Documented.
        pub(super) from_parts(2) -> Result<u8, String> { "5".parse::<u8>().map_err(|e| e.to_string()) }
    }

    macro_rules! test {
        ($name:ident $body:block) => {
            #[wakeful::test]
            async fn $name() {
                $body
            }
        };
    }

    test!(a_test_made_by_a_macro {
        let other = std::thread::spawn(from_parts).join();
        assert_eq!(other.unwrap(), Ok(5));
    });
}

mod arguments {
    use super::*;

    fn flavor() -> RuntimeFlavor {
        Handle::current().runtime_flavor()
    }

    #[wakeful::main]
    async fn main_default() -> RuntimeFlavor {
        flavor()
    }

    #[wakeful::main(flavor = "current_thread")]
    async fn main_current_thread() -> RuntimeFlavor {
        flavor()
    }

    #[wakeful::main(worker_threads = 3)]
    async fn three_workers() -> usize {
        Handle::current().metrics().num_workers()
    }

    #[wakeful::main(flavor = "local")]
    async fn local() -> u32 {
        let not_send = Rc::new(Cell::new(1));
        let inside = not_send.clone();
        wakeful::task::spawn_local(async move { inside.set(2) }).await.unwrap();
        not_send.get()
    }

    #[test]
    fn of_main() {
        assert_eq!(main_default(), RuntimeFlavor::MultiThread);
        assert_eq!(main_current_thread(), RuntimeFlavor::CurrentThread);
        assert_eq!(three_workers(), 3);
        assert_eq!(local(), 2);
    }

    #[wakeful::test]
    async fn test_default() {
        assert_eq!(flavor(), RuntimeFlavor::CurrentThread);
    }

    #[wakeful::test(flavor = "multi_thread", worker_threads = 2, name = "two \"workers\"")]
    async fn test_multi_thread() {
        let handle = Handle::current();
        assert_eq!(handle.runtime_flavor(), RuntimeFlavor::MultiThread);
        assert_eq!(handle.metrics().num_workers(), 2);
        assert_eq!(handle.name(), Some("two \"workers\""));
    }

    #[wakeful::test(start_paused = true)]
    async fn paused_time_jumps_ahead() {
        let real = std::time::Instant::now();
        let start = Instant::now();
        wakeful::time::sleep(Duration::from_secs(3600)).await;
        assert!(start.elapsed() >= Duration::from_secs(3600));
        assert!(real.elapsed() < Duration::from_secs(600));
    }

    #[wakeful::test(flavor = "local")]
    async fn test_local() {
        wakeful::task::spawn_local(async { Rc::new(()) }).await.unwrap();
    }

    #[wakeful::test(unhandled_panic = "ignore")]
    async fn a_panic_may_be_ignored() {
        assert!(wakeful::spawn(async { panic!("expected by this test") }).await.is_err());
    }

    #[wakeful::test(flavor = "current_thread", unhandled_panic = "shutdown_runtime")]
    #[should_panic]
    async fn a_panic_may_end_the_runtime() {
        let _ = wakeful::spawn(async { panic!("expected by this test") }).await;
    }
}

mod other_attributes {
    #[wakeful::test]
    #[should_panic(expected = "of the test itself")]
    async fn should_panic() {
        panic!("of the test itself");
    }

    #[should_panic(expected = "before")]
    #[wakeful::test]
    async fn should_panic_written_before() {
        panic!("before");
    }

    // The macro must keep attributes below its own. If it lost `#[ignore]`, this test would run and fail.
    #[wakeful::test]
    #[ignore = "to see that it is ignored"]
    async fn ignored() {
        unreachable!("this test is ignored");
    }

    #[wakeful::test]
    #[cfg(any())]
    async fn configured_away() {
        there::is::no_such(thing)
    }

    #[wakeful::test]
    async fn may_return_a_result() -> Result<(), std::num::ParseIntError> {
        let one: u32 = "1".parse()?;
        assert_eq!(one, 1);
        Ok(())
    }

    #[wakeful::test]
    async fn may_return_an_exit_code() -> std::process::ExitCode {
        std::process::ExitCode::SUCCESS
    }

    #[rustfmt::skip]
    #[wakeful::test]
    async fn on_one_line() { assert_eq!(1 + 1, 2) }
}

mod names {
    #[allow(unused_imports)]
    use std as wakeful;

    use ::wakeful as renamed;

    mod inner {
        pub(super) use ::wakeful as re_exported;
    }

    #[::wakeful::test]
    async fn the_default_is_the_crate_whatever_else_has_its_name() {
        renamed::spawn(async {}).await.unwrap();
    }

    #[renamed::test(crate = "renamed")]
    async fn renamed_in_text() {}

    #[renamed::test(crate = renamed)]
    async fn renamed_as_a_path() {}

    #[inner::re_exported::test(crate = "inner::re_exported", flavor = "multi_thread")]
    async fn re_exported() {}

    // The names that the expansion uses are free for the body.
    #[::wakeful::test]
    async fn names_of_the_expansion_do_not_meet_names_of_the_body() {
        let (runtime, body, output) = (1, 2, 3);
        assert_eq!(runtime + body + output, 6);
        fn main() {}
        main();
    }
}

/// The body's future is pinned where it is made. A second copy would not fit into this stack.
#[test]
fn a_large_body_takes_its_size_once() {
    const LARGE: usize = 1 << 20;

    #[wakeful::main(flavor = "current_thread")]
    async fn large() -> usize {
        let buffer = [1u8; LARGE];
        wakeful::task::yield_now().await;
        buffer.iter().map(|&byte| usize::from(byte)).sum()
    }

    let stack = LARGE + LARGE / 2;
    let thread = std::thread::Builder::new().stack_size(stack).spawn(large).unwrap();
    assert_eq!(thread.join().unwrap(), LARGE);
}
