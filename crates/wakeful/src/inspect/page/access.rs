//! Decides which requests the server answers.
//!
//! A page on loopback is not safe by itself. A web site can have its name resolve to 127.0.0.1 (DNS
//! rebinding), or send requests across origins. Four rules keep other sites and other users out:
//!
//! - PAGE-1. `Host` is an IP address or `localhost`, with the server's own port. A name that resolves
//!   to loopback is refused.
//! - PAGE-2. Every request has the token, 128 random bits. It is in the URL of the first visit,
//!   then in a cookie that scripts cannot read and browsers do not send across sites. Programs send
//!   it as `Authorization: Bearer`, which browsers never add by themselves.
//! - PAGE-3. An action is a POST with the action token, which only the page itself contains, and with
//!   no foreign `Origin`.
//! - PAGE-4. No response allows another origin to read it.
//!
//! `cargo wakeful run --page` starts a browser, whose arguments other users can see. So it passes a code
//! in place of the token ([`Visit`]). The code is accepted once, from a process of the same user.
//!
//! A client of a Unix socket has passed the permissions of the file, but follows the same rules. Its
//! `Host` may have any port: a browser reaches the socket through a port that is forwarded to it.

use super::request::Request;
use super::response::{Response, Status};
use crate::sys::sync::ignore_poison;
use std::io;
use std::net::IpAddr;
use std::sync::Mutex;

/// The secrets of a server, and the address that its clients use.
pub(super) struct Access {
    token: String,
    action: String,
    /// The code for a first visit without the token, until it is used.
    code: Mutex<Option<String>>,
    /// The port of the server; `None` for a Unix socket.
    port: Option<u16>,
}

/// A request and its sender.
pub(super) struct Visit<'a> {
    pub(super) request: &'a Request,
    /// Returns whether the sender is a process of the server's own user. Called only if it matters.
    pub(super) is_own_user: &'a dyn Fn() -> bool,
}

impl Access {
    /// Creates the secrets. `token` is the token that the user has chosen, if any.
    pub(super) fn new(port: Option<u16>, token: Option<&str>) -> io::Result<Self> {
        let token = match token {
            Some(token) if is_token(token) => token.to_owned(),
            Some(_) => {
                let text = "the token must be 32 hexadecimal digits, such as `openssl rand -hex 16` prints";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
            None => random_token()?,
        };
        let code = Mutex::new(Some(random_token()?));
        Ok(Self { token, action: random_token()?, code, port })
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// Returns the code for the first visit of a browser, unless it has been used.
    pub(super) fn code(&self) -> Option<String> {
        ignore_poison(self.code.lock()).clone()
    }

    /// Accepts the code, once.
    fn redeem(&self, code: &str, visit: &Visit<'_>) -> bool {
        let mut own = ignore_poison(self.code.lock());
        let is_right = own.as_deref().is_some_and(|own| is_equal(code, own));
        // Another user who has seen the code can neither use it nor invalidate it.
        let is_accepted = is_right && (visit.is_own_user)();
        if is_accepted {
            *own = None;
        }
        is_accepted
    }

    /// Returns the action token, which the page contains.
    pub(super) fn action(&self) -> &str {
        &self.action
    }

    /// Returns the name of the cookie. Cookies of one host are shared by all its ports, so the name has
    /// the port that the client uses; 0 if `Host` has none.
    fn cookie(&self, request: &Request) -> String {
        let port = request.host.as_deref().and_then(|host| host.rsplit_once(':'));
        let port = port.and_then(|(_, port)| port.parse::<u16>().ok());
        format!("wakeful_{}", self.port.or(port).unwrap_or(0))
    }

    /// Checks a request. An `Err` is the response to a request that is not let through.
    pub(super) fn check(&self, visit: &Visit<'_>) -> Result<(), Response> {
        let request = visit.request;
        if !self.is_own_host(request.host.as_deref()) {
            return Err(Response::error(
                Status::MisdirectedRequest,
                "open the page by its IP address or as localhost, as the printed URL does",
            ));
        }
        let (token, code) = (request.parameter("token"), request.parameter("code"));
        if token.is_some() || code.is_some() {
            let is_accepted = token.is_some_and(|token| is_equal(token, &self.token))
                || code.is_some_and(|code| !request.is_post && self.redeem(code, visit));
            if request.is_post || !is_accepted {
                return Err(self.unauthorized());
            }
            let cookie = format!(
                "{}={}; HttpOnly; SameSite=Strict; Path=/",
                self.cookie(request),
                self.token
            );
            return Err(Response::redirect(own_path(&request.path)).header("Set-Cookie", &cookie));
        }
        let is_token = |sent: &str| is_equal(sent, &self.token);
        let has_token = match &request.bearer {
            Some(bearer) => is_token(bearer),
            None => request.cookies(&self.cookie(request)).any(is_token),
        };
        if !has_token {
            return Err(self.unauthorized());
        }
        if request.is_post {
            let has_token = request.action.as_deref().is_some_and(|it| is_equal(it, &self.action));
            if !has_token || !self.is_own_origin(request) {
                return Err(Response::error(
                    Status::Forbidden,
                    "only the page itself can send actions: reload it and try again",
                ));
            }
        }
        Ok(())
    }

    fn unauthorized(&self) -> Response {
        Response::error(
            Status::Unauthorized,
            "open the URL with the token that the program printed to standard error",
        )
    }

    /// Returns whether `Host` names this server by address (PAGE-1).
    fn is_own_host(&self, host: Option<&str>) -> bool {
        let Some(host) = host else { return false };
        let (name, port) = match host.strip_prefix('[') {
            Some(rest) => match rest.split_once(']') {
                Some((name, "")) => (name, None),
                Some((name, port)) => (name, port.strip_prefix(':')),
                None => return false,
            },
            None => host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port))),
        };
        let is_address = name == "localhost" || name.parse::<IpAddr>().is_ok();
        let is_own_port = match (port, self.port) {
            (Some(port), Some(own)) => port == own.to_string(),
            (None, Some(own)) => own == 80,
            (_, None) => true, // a forwarded socket has the port that the user chose
        };
        is_address && is_own_port
    }

    /// Returns whether the request comes from a page of this server.
    fn is_own_origin(&self, request: &Request) -> bool {
        match (&request.origin, &request.host) {
            (None, _) => true, // not a browser: browsers send the origin of every POST
            (Some(origin), Some(host)) => origin.strip_prefix("http://") == Some(host.as_str()),
            (Some(_), None) => false,
        }
    }
}

/// Returns the path of a redirection after the token was accepted: never to another server.
fn own_path(path: &str) -> &str {
    let is_own = path.starts_with('/') && !path.starts_with("//");
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    if is_own && path.bytes().all(is_plain) { path } else { "/" }
}

/// Compares two texts in a time that does not depend on where they differ.
fn is_equal(one: &str, other: &str) -> bool {
    let differences = one.bytes().zip(other.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && std::hint::black_box(differences) == 0
}

/// Returns whether a text can be a token: it has 128 bits, and fits a URL and a cookie.
fn is_token(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns 128 random bits from the kernel, as 32 hexadecimal digits.
fn random_token() -> io::Result<String> {
    let mut bytes = [0; 16];
    let mut source = std::fs::File::open("/dev/urandom")?;
    io::Read::read_exact(&mut source, &mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn request(host: &str) -> Request {
        Request { path: "/".to_owned(), host: Some(host.to_owned()), ..Request::default() }
    }

    fn status(access: &Access, request: &Request) -> Option<Status> {
        let visit = Visit { request, is_own_user: &|| unreachable!("there is no code") };
        access.check(&visit).err().map(|response| response.status)
    }

    #[test]
    fn only_addresses_and_localhost_are_hosts() {
        let access = Access::new(Some(7000), None).unwrap();
        for host in ["127.0.0.1:7000", "localhost:7000", "[::1]:7000", "10.0.0.1:7000"] {
            assert!(access.is_own_host(Some(host)), "{host}");
        }
        let foreign = [
            "localhost6:7000",
            "rebind.example:7000",
            "127.0.0.1:7001",
            "127.0.0.1",
            "localhost",
            "127.0.0.1.example:7000",
            "[::1",
            "[::1]7000",
            "",
            "localhost:7000:7000",
            "LOCALHOST:7000x",
        ];
        for host in foreign {
            assert!(!access.is_own_host(Some(host)), "{host}");
        }
        assert!(!access.is_own_host(None));
        let socket = Access::new(None, None).unwrap();
        assert!(
            socket.is_own_host(Some("localhost")) && socket.is_own_host(Some("localhost:7000"))
        );
        assert!(
            !socket.is_own_host(Some("a.example")) && !socket.is_own_host(Some("a.example:80"))
        );
    }

    #[test]
    fn the_token_becomes_a_cookie() {
        let access = Access::new(Some(7000), None).unwrap();
        let plain = request("127.0.0.1:7000");
        assert_eq!(status(&access, &plain), Some(Status::Unauthorized));
        let with_token = |token: &str| Request {
            query: vec![("token".to_owned(), token.to_owned())],
            ..request("127.0.0.1:7000")
        };
        assert_eq!(status(&access, &with_token("wrong")), Some(Status::Unauthorized));
        assert_eq!(status(&access, &with_token(&access.token)), Some(Status::SeeOther));
        let cookies = vec![("wakeful_7000".to_owned(), access.token.clone())];
        let with_cookie = Request { cookies, ..request("127.0.0.1:7000") };
        assert_eq!(status(&access, &with_cookie), None);
        let mut with_two =
            Request { cookies: with_cookie.cookies.clone(), ..request("127.0.0.1:7000") };
        with_two.cookies.insert(0, ("wakeful_7000".to_owned(), "of another server".to_owned()));
        assert_eq!(status(&access, &with_two), None, "another server cannot lock the user out");
        let foreign = Request { host: Some("evil.example:7000".to_owned()), ..with_cookie };
        assert_eq!(status(&access, &foreign), Some(Status::MisdirectedRequest));
    }

    #[test]
    fn a_code_is_accepted_once_and_from_the_own_user() {
        let access = Access::new(Some(7000), None).unwrap();
        let code = access.code().unwrap();
        let visit = |code: &str, is_post: bool, is_own: bool| {
            let query = vec![("code".to_owned(), code.to_owned())];
            let request = &Request { query, is_post, ..request("127.0.0.1:7000") };
            let visit = Visit { request, is_own_user: &|| is_own };
            access.check(&visit).err().map(|response| response.status)
        };
        assert_eq!(visit(&access.token, false, true), Some(Status::Unauthorized));
        assert_eq!(visit(&code, false, false), Some(Status::Unauthorized), "another user");
        assert_eq!(visit(&code, false, true), Some(Status::SeeOther));
        assert_eq!(visit(&code, false, true), Some(Status::Unauthorized), "twice");
        assert_eq!(access.code(), None);
    }

    #[test]
    fn a_bearer_has_precedence_over_the_cookie() {
        let access = Access::new(Some(7000), None).unwrap();
        let bearer = |token: &str| Request {
            bearer: Some(token.to_owned()),
            cookies: vec![("wakeful_7000".to_owned(), access.token.clone())],
            ..request("127.0.0.1:7000")
        };
        assert_eq!(status(&access, &bearer(&access.token)), None);
        assert_eq!(status(&access, &bearer("wrong")), Some(Status::Unauthorized));
        let post = Request { is_post: true, ..bearer(&access.token) };
        assert_eq!(status(&access, &post), Some(Status::Forbidden), "no action token");
    }

    #[test]
    fn a_chosen_token_has_as_many_bits_as_a_random_one() {
        let token = "00112233445566778899AABBCCDDEEFF";
        assert_eq!(Access::new(None, Some(token)).unwrap().token(), token);
        for weak in ["", "secret", &token[1..], "0011223344556677889900112233445;"] {
            let error = Access::new(None, Some(weak)).err().unwrap();
            assert!(error.to_string().contains("32 hexadecimal digits"), "{error}");
        }
    }

    #[test]
    fn an_action_needs_its_token_and_the_own_origin() {
        let access = Access::new(Some(7000), None).unwrap();
        let post = |action: Option<&str>, origin: Option<&str>| Request {
            is_post: true,
            cookies: vec![("wakeful_7000".to_owned(), access.token.clone())],
            action: action.map(str::to_owned),
            origin: origin.map(str::to_owned),
            ..request("127.0.0.1:7000")
        };
        let (own, good) = (Some("http://127.0.0.1:7000"), Some(access.action()));
        assert_eq!(status(&access, &post(good, own)), None);
        assert_eq!(status(&access, &post(None, own)), Some(Status::Forbidden));
        assert_eq!(status(&access, &post(Some("wrong"), own)), Some(Status::Forbidden));
        for origin in
            ["http://127.0.0.1:7001", "https://127.0.0.1:7000", "null", "http://a.example"]
        {
            assert_eq!(status(&access, &post(good, Some(origin))), Some(Status::Forbidden));
        }
    }

    #[test]
    fn a_redirection_stays_on_this_server() {
        assert_eq!(own_path("/app.js"), "/app.js");
        for path in ["//a.example/", "http://a.example", "/\r\nX: y", "/\\a.example", ""] {
            assert_eq!(own_path(path), "/", "{path:?}");
        }
    }
}
