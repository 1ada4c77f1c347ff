//! Declares the fields of services of any kind: their command, and HTTP requests to them.

use crate::study::field::{Form, Table, always, default, maybe};

pub(in crate::study) static PROCESS: Table = Table {
    name: "process",
    meaning: "Command of a server. `{address}` stands for the address to listen on, `{port}` for the port that \
              clients connect to, `{port:NAME}` for a further port, `{dir}` for the folder of its data and its \
              working directory, `{here}` for the folder that bakeoff was started in, `{node}` for the node's name, \
              and `{ROLE}` for the address of a component, such as `127.0.0.1:8080`. `{{port}}` is the literal text.",
    one_of: &[],
    fields: &[
        always(
            "command",
            Form::List(&Form::Text),
            "[./gateway, --listen, \"{address}:{port}\"]",
            "Program, from `PATH` or by its path, and its arguments. It must stay in the foreground.",
        ),
        maybe(
            "environment",
            Form::Open(&Form::AsWritten),
            "{LOG_LEVEL: warn, TOKEN: $TOKEN}",
            "Environment variables beyond `PATH`, `HOME`, `LANG` and `TMPDIR`. `$NAME` takes the value from \
             bakeoff's environment; use it for secrets.",
        ),
        maybe(
            "files",
            Form::Open(&Form::AsWritten),
            "{gateway.conf: \"listen {port}\"}",
            "Files that bakeoff writes into `{dir}` before it starts the command.",
        ),
        maybe(
            "ready",
            Form::Text,
            "/health",
            "Path that returns a success once the server is ready. Without it, the server is ready when it accepts a \
             connection.",
        ),
    ],
};

pub(in crate::study) static REQUEST: Table = Table {
    name: "request",
    meaning: "An HTTP request.",
    one_of: &[],
    fields: &[
        default("method", Form::Text, "GET", "HTTP method."),
        default(
            "path",
            Form::Text,
            "/",
            "Path and query. Words in braces change with each request, also in headers and body: `{key}` is the number \
             of one of the `keys`, `{sequence}` the number of the request, `{client}` the number of the client, \
             `{random:8}` 8 random characters, `{name}` a column of `rows`, and `{name:json}` the column escaped \
             for a JSON string. `{{key}}` is the literal text.",
        ),
        maybe(
            "headers",
            Form::Open(&Form::AsWritten),
            "{accept: text/html, authorization: $TOKEN}",
            "Headers beyond `Host` and those of the body. `$NAME` takes the value from bakeoff's environment.",
        ),
        default(
            "http2",
            Form::Flag,
            "false",
            "HTTP/2 in place of HTTP/1.1: negotiated over TLS, or with prior knowledge without TLS. A client then \
             has up to `in-flight` requests of the load on its connection.",
        ),
        maybe("body", Form::AsWritten, "name=value", "Body of the request."),
        maybe(
            "rows",
            Form::Table(&ROWS),
            "{file: users.csv}",
            "Table whose columns can be used as words in braces. Each request takes the next row.",
        ),
        maybe(
            "expect",
            Form::Table(&EXPECT),
            "{status: 200, body-size: 43}",
            "Required response; any other one is an error.",
        ),
    ],
};

static ROWS: Table = Table {
    name: "rows",
    meaning: "Table of values for requests.",
    one_of: &[],
    fields: &[
        always(
            "file",
            Form::Text,
            "users.csv",
            "Path of a CSV file (RFC 4180), from the folder that bakeoff is started in. Its first row \
             names the columns.",
        ),
        maybe(
            "sha256",
            Form::Text,
            "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "SHA-256 of the file. bakeoff rejects a file with another one.",
        ),
    ],
};

pub(in crate::study) static EXPECT: Table = Table {
    name: "expect",
    meaning: "The expected response.",
    one_of: &[],
    fields: &[
        default(
            "status",
            Form::OneOrMany(&Form::Status),
            "2xx",
            "Accepted statuses: a number, `2xx`, a range such as `200-299`, or a list of them. Text with commas works \
             too, as for `load --expect-status`.",
        ),
        maybe(
            "headers",
            Form::Open(&Form::AsWritten),
            "{content-type: application/json}",
            "Required headers with their exact values. Names are case-insensitive.",
        ),
        maybe(
            "body-size",
            Form::Whole { min: 0, max: 1 << 30 },
            "43",
            "Length of the body in bytes; any length by default.",
        ),
        maybe("contains", Form::AsWritten, "welcome", "Text that the body must contain."),
    ],
};
