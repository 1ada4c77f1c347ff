//! Test fixtures: a web server that misbehaves on request, and an invented machine.

pub(super) mod recipes;

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use sha2::{Digest, Sha256, Sha512};

use super::Host;
use super::hashes::hex;

/// Behaviour of the test server for a path.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    /// Serves the bytes.
    Body(Vec<u8>),
    /// Announces more bytes than it sends, then closes the connection.
    Torn(Vec<u8>),
    /// Announces more bytes than it sends, then keeps the connection open.
    Stuck(Vec<u8>),
    /// Sends nothing and keeps the connection open.
    Silent,
    /// Sends bytes without end, and announces no size.
    Endless,
}

/// A web server on loopback. It answers unknown paths with 404.
pub(super) struct Site {
    pub(super) url: String,
    asked: Arc<AtomicUsize>,
}

impl Site {
    pub(super) fn serving(answers: Vec<(&str, Answer)>) -> Site {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answers: HashMap<String, Answer> =
            answers.into_iter().map(|(path, answer)| (path.to_owned(), answer)).collect();
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        thread::spawn(move || {
            let answers = Arc::new(answers);
            for stream in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::SeqCst);
                let answers = Arc::clone(&answers);
                thread::spawn(move || serve(stream, &answers));
            }
        });
        Site { url, asked }
    }

    /// Returns the number of connections so far.
    pub(super) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

fn serve(mut stream: TcpStream, answers: &HashMap<String, Answer>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let request = lines.next().unwrap_or_default();
    let _ = lines.find(String::is_empty);
    let path = request.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let head = |size: usize| {
        format!("HTTP/1.1 200 OK\r\ncontent-length: {size}\r\nconnection: close\r\n\r\n")
    };
    let hold = || thread::sleep(Duration::from_secs(60));
    let mut send = |head: &str, body: &[u8]| {
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body))
    };
    match answers.get(&path) {
        None => drop(send(
            "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            b"",
        )),
        Some(Answer::Body(body)) => drop(send(&head(body.len()), body)),
        Some(Answer::Torn(body)) => drop(send(&head(body.len() + 1000), body)),
        Some(Answer::Stuck(body)) => {
            let _ = send(&head(body.len() + 1000), body);
            hold();
        }
        Some(Answer::Silent) => hold(),
        Some(Answer::Endless) => {
            let _ = send("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n", b"");
            while send("", &[0; 4096]).is_ok() {}
        }
    }
}

/// Creates a `.tar.gz` with these files, without checking the paths.
pub(super) fn tar_gz(files: &[(&str, &str)]) -> Vec<u8> {
    let mut tar =
        tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        // The setter of `tar` refuses paths of hostile archives.
        header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(1_729_166_400); // 2024-10-17
        header.set_cksum();
        tar.append(&header, text.as_bytes()).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

/// Creates a `.zip` with these files.
pub(super) fn zip(files: &[(&str, &str)]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (path, text) in files {
        zip.start_file(*path, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

pub(super) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

pub(super) fn sha512(bytes: &[u8]) -> String {
    hex(&Sha512::digest(bytes))
}

/// Returns a shell script that prints a version of etcd.
pub(super) fn etcd_saying(version: &str) -> String {
    format!("#!/bin/sh\necho etcd Version: {version}\n")
}

/// Writes an executable script.
pub(super) fn script(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Returns a machine that has only the tools in `bin` and downloads from `mirror`.
pub(super) fn machine(bin: &Path, mirror: Option<&str>) -> Host {
    Host {
        path: Some(bin.into()),
        java_home: None,
        mirror: mirror.map(str::to_owned),
        // Nothing listens on this port, so no test reaches PyPI.
        index: "http://127.0.0.1:9/simple".to_owned(),
        publisher: mirror.map(str::to_owned),
    }
}
