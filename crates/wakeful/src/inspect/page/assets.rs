//! The files of the page, compressed by the build script.

use super::response::Response;

/// A file of `web/`.
struct Asset {
    path: &'static str,
    content_type: &'static str,
    /// The content in zlib's format, which HTTP calls `deflate`.
    compressed: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/page_assets.rs"));

/// The placeholder for the action token that the build script leaves in `index.html`.
const INDEX: (&str, &str) = (
    include_str!(concat!(env!("OUT_DIR"), "/index_start.html")),
    include_str!(concat!(env!("OUT_DIR"), "/index_end.html")),
);

/// Returns the file at a path of the URL. A path cannot name any other file.
pub(super) fn find(path: &str, action: &str) -> Option<Response> {
    if path == "/" {
        let (start, end) = INDEX;
        let html = format!("{start}{action}{end}");
        return Some(Response::new("text/html; charset=utf-8", html.into_bytes()));
    }
    let asset = ASSETS.iter().find(|asset| asset.path == path)?;
    let response = Response::new(asset.content_type, asset.compressed);
    Some(response.header("Content-Encoding", "deflate"))
}
