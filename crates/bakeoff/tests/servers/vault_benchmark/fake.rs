//! Runs a server with answers chosen by a test.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

/// A server that answers with a status and a body by method and path, or never.
pub(super) struct Fake {
    pub(super) port: u16,
}

pub(super) type Answers = fn(&str, &str) -> Option<(u16, &'static str)>;

impl Fake {
    /// Its threads end with the test program.
    pub(super) fn start(answers: Answers) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                std::thread::spawn(move || Self::serve(&socket, answers));
            }
        });
        Self { port }
    }

    fn serve(socket: &TcpStream, answers: Answers) -> Option<()> {
        let mut reader = BufReader::new(socket);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
            let (mut length, mut header) = (0, String::new());
            while header != "\r\n" {
                header.clear();
                reader.read_line(&mut header).ok().filter(|read| *read > 0)?;
                if let Some(value) = header.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().ok()?;
                }
            }
            reader.read_exact(&mut vec![0; length]).ok()?;
            let mut words = line.split(' ');
            let (method, path) = (words.next()?, words.next()?);
            let Some((status, body)) = answers(method, path) else {
                // Until the client gives up.
                reader.read_line(&mut line).ok()?;
                return None;
            };
            let length = body.len();
            write!(&*socket, "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{body}")
                .ok()?;
        }
    }
}

/// One status for `sys/health`, another for all other paths.
pub(super) fn answer(path: &str, health: u16, rest: u16) -> Option<(u16, &'static str)> {
    let is_health = path.starts_with("/v1/sys/health");
    Some((if is_health { health } else { rest }, "{}"))
}
