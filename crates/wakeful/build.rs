//! Compresses the files of the live page (`src/inspect/page/web`) for `inspect::page::assets`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "page")]
    page::write();
}

#[cfg(feature = "page")]
mod page {
    use std::env;
    use std::fmt::Write;
    use std::fs;
    use std::path::Path;

    const FOLDER: &str = "src/inspect/page/web";
    /// Where the server puts the token of actions.
    const ACTION: &str = "{{action}}";

    pub fn write() {
        println!("cargo::rerun-if-changed={FOLDER}");
        let out = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
        let out = Path::new(&out);
        let mut names: Vec<String> = fs::read_dir(FOLDER)
            .expect("the folder of the page can be read")
            .map(|entry| entry.expect("it can be listed").file_name())
            .map(|name| name.into_string().expect("the names are ASCII"))
            .collect();
        names.sort();
        let mut table = String::from("static ASSETS: &[Asset] = &[\n");
        for name in &names {
            let content = fs::read(Path::new(FOLDER).join(name)).expect("a file can be read");
            if name == "index.html" {
                let html = String::from_utf8(content).expect("index.html is UTF-8");
                let (start, end) = html.split_once(ACTION).expect("index.html has the placeholder");
                fs::write(out.join("index_start.html"), start).expect("it can be written");
                fs::write(out.join("index_end.html"), end).expect("it can be written");
                continue;
            }
            let compressed = miniz_oxide::deflate::compress_to_vec_zlib(&content, 9);
            let file = format!("page_{name}.z");
            fs::write(out.join(&file), compressed).expect("it can be written");
            let content_type = content_type(name);
            let _ = writeln!(
                table,
                "    Asset {{ path: \"/{name}\", content_type: {content_type:?}, \
                 compressed: include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{file}\")) }},"
            );
        }
        table.push_str("];\n");
        fs::write(out.join("page_assets.rs"), table).expect("it can be written");
    }

    fn content_type(name: &str) -> &'static str {
        match name.rsplit_once('.').map(|(_, end)| end) {
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            _ => panic!("the content type of {name} is not known"),
        }
    }
}
