//! Runs the user's script in one Lua state, and calls its functions in wrk's order.
//!
//! Each thread has a state, which makes requests. The main state runs `setup` and `done`. A failing script stops the
//! run, and the error names the file, the line, the callback and the thread. wrk would continue without it, or abort.
//!
//! Uses mlua's safe mode, which leaves out everything that could corrupt memory from Lua: `ffi`, most of `debug`, and
//! C modules.
//!
//! Not here: `wrk.…` itself (`prelude.lua`), objects (`userdata`), the load (`source`).

use std::fmt;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bakeoff_wire::http1::{Headers, Response};
use mlua::chunk::ChunkMode;
use mlua::{Error, Function, Lua, LuaString, Table, Value, Variadic};

use super::options::{Options, Url};
use super::output::Figures;
use super::userdata::{Address, Statistics, ThreadHandle, ThreadState};

const PRELUDE: &str = include_str!("prelude.lua");
/// Longest wait of `wrk.connect`.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// Most bytes of a script.
const SCRIPT_MAX: u64 = 256 << 20;

/// A call into the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Callback {
    /// Before the script runs.
    Reading,
    /// The file's main chunk.
    File,
    Resolve,
    Setup,
    Init,
    Request,
    Response,
    Delay,
    Done,
}

impl Callback {
    /// Returns the callback's name in a message.
    fn name(self) -> &'static str {
        match self {
            Self::Reading => "being read",
            Self::File => "its main chunk",
            Self::Resolve => "`wrk.resolve`",
            Self::Setup => "`setup`",
            Self::Init => "`init`",
            Self::Request => "`request`",
            Self::Response => "`response`",
            Self::Delay => "`delay`",
            Self::Done => "`done`",
        }
    }
}

/// Error of a script.
#[derive(Debug, Clone)]
pub(super) struct ScriptError {
    pub(super) callback: Callback,
    /// Index from 0; `None` for the main state.
    thread: Option<u32>,
    file: Option<PathBuf>,
    pub(super) what: String,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) if self.callback == Callback::Reading => {
                return write!(to, "the script `{}` cannot be read: {}", file.display(), self.what);
            }
            Some(file) => write!(to, "the script `{}` failed", file.display())?,
            None => write!(to, "the load failed")?,
        }
        write!(to, " in {}", self.callback.name())?;
        if let Some(thread) = self.thread {
            write!(to, ", thread {}", thread + 1)?;
        }
        write!(to, "\n  {}", self.what)
    }
}

/// Parts of a response that the script's `response` uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ResponseParts {
    pub(super) status: bool,
    pub(super) headers: bool,
    pub(super) body: bool,
}

impl ResponseParts {
    fn first(parameters: usize) -> Self {
        Self { status: parameters > 0, headers: parameters > 1, body: parameters > 2 }
    }
}

pub(super) struct Script {
    lua: Lua,
    file: Option<PathBuf>,
    thread: Option<u32>,
    request: Function,
    response: Function,
    delay: Function,
    parameters: Function,
    learn: Function,
    /// Head of the last response that was passed with its headers.
    known_head: Vec<u8>,
    /// True if Lua has cached the headers of `known_head` as code.
    learned: bool,
}

impl Script {
    /// Creates a state and runs the script's file in it. `thread` is `None` for the main state.
    pub(super) fn new(options: &Options, thread: Option<u32>) -> Result<Self, ScriptError> {
        let lua = Lua::new();
        let file = options.script.clone();
        let fail = |error: &Error| ScriptError {
            callback: Callback::File,
            thread,
            file: file.clone(),
            what: message_of(error),
        };
        let calls = prelude(&lua, options).map_err(|error| fail(&error))?;
        let call = |name| calls.get::<Function>(name).map_err(|error| fail(&error));
        let (request, response, delay) = (call("request")?, call("response")?, call("delay")?);
        let (parameters, learn) = (call("parameters")?, call("learn")?);
        if let Some(path) = &file {
            let source = bakeoff_files::read(path, SCRIPT_MAX).map_err(|error| ScriptError {
                callback: Callback::Reading,
                ..fail(&Error::runtime(error))
            })?;
            let name = format!("@{}", path.display());
            let chunk = lua.load(source).set_name(name).set_mode(ChunkMode::Text);
            chunk.exec().map_err(|error| fail(&error))?;
        }
        Ok(Self {
            lua,
            file,
            thread,
            request,
            response,
            delay,
            parameters,
            learn,
            known_head: Vec::new(),
            learned: false,
        })
    }

    pub(super) fn lua(&self) -> &Lua {
        &self.lua
    }

    /// Returns true if the script defines a global function of this name.
    pub(super) fn defines(&self, name: &str) -> bool {
        matches!(self.lua.globals().raw_get(name), Ok(Value::Function(_)))
    }

    /// Returns the host's addresses that accept a connection, as found by `wrk.resolve`.
    pub(super) fn resolve(&self, url: &Url) -> Result<Vec<SocketAddr>, ScriptError> {
        let resolve = || {
            let wrk: Table = self.lua.globals().get("wrk")?;
            wrk.get::<Function>("resolve")?.call::<()>((url.host.as_str(), url.service()))?;
            let addresses: Vec<Address> = wrk.get("addrs")?;
            Ok(addresses.into_iter().map(|address| address.0).collect())
        };
        resolve().map_err(|error| self.error(Callback::Resolve, &error))
    }

    /// Passes a thread to `setup`. For the main state.
    pub(super) fn setup(&self, thread: ThreadHandle) -> Result<(), ScriptError> {
        self.wrk("setup")
            .and_then(|setup| setup.call::<()>(thread))
            .map_err(|error| self.error(Callback::Setup, &error))
    }

    /// Creates the thread's handle, which `setup` may write to. For a thread's state.
    pub(super) fn begin(&self, state: &Arc<ThreadState>) -> Result<ThreadHandle, ScriptError> {
        let handle = ThreadHandle::new(&self.lua, state.clone());
        let begin = || {
            let wrk: Table = self.lua.globals().get("wrk")?;
            wrk.set("thread", handle.clone())
        };
        begin().map(|()| handle.clone()).map_err(|error| self.error(Callback::Init, &error))
    }

    /// Calls `init` with the arguments, the URL at index 0. For a thread's state.
    pub(super) fn init(&self, args: &[String]) -> Result<(), ScriptError> {
        let init = || {
            let table = self.lua.create_table()?;
            for (index, arg) in args.iter().enumerate() {
                table.raw_set(index, arg.as_str())?;
            }
            self.wrk("init")?.call::<()>(table)
        };
        init().map_err(|error| self.error(Callback::Init, &error))
    }

    /// Returns the next request's bytes.
    pub(super) fn request(&self) -> Result<LuaString, ScriptError> {
        let made = self.request.call::<Value>(());
        match made.map_err(|error| self.error(Callback::Request, &error))? {
            Value::String(text) => Ok(text),
            other => {
                let kind = other.type_name();
                Err(self.refuse(&format!("it returned {kind} instead of a request's text")))
            }
        }
    }

    /// Returns the error for an invalid result of `request`.
    pub(super) fn refuse(&self, what: &str) -> ScriptError {
        self.error(Callback::Request, &Error::runtime(format!("{what}: `wrk.format` makes one")))
    }

    /// Returns the parameters that `response` uses now; none if the script has removed it.
    pub(super) fn wants(&self) -> Result<ResponseParts, ScriptError> {
        let parameters = self.parameters.call::<usize>(());
        parameters.map(ResponseParts::first).map_err(|error| self.error(Callback::Response, &error))
    }

    /// Passes the parts selected by `wants` to `response`. Returns true if the script has replaced `response`, which
    /// was then not called: call `wants` and this function again.
    pub(super) fn response(
        &mut self,
        response: &Response<'_>,
        wants: ResponseParts,
    ) -> Result<bool, ScriptError> {
        self.respond(response, wants).map_err(|error| self.error(Callback::Response, &error))
    }

    fn respond(&mut self, response: &Response<'_>, wants: ResponseParts) -> mlua::Result<bool> {
        let status = response.status;
        if !wants.headers {
            return self.response.call(status);
        }
        let headers = self.headers(&response.headers)?;
        if !wants.body {
            return self.response.call((status, headers));
        }
        match str::from_utf8(response.body) {
            Ok(text) => self.response.call((status, headers, text)), // passed without a copy
            Err(_) => {
                let body = self.lua.create_string(response.body)?;
                self.response.call((status, headers, body))
            }
        }
    }

    /// Returns a response's headers as a table, or the cached table if the head equals the last one. Most servers
    /// repeat the same head for a second.
    fn headers(&mut self, headers: &Headers<'_>) -> mlua::Result<Value> {
        let head = headers.head;
        if self.known_head != head {
            self.known_head.clear();
            self.known_head.extend_from_slice(head);
            self.learned = false;
            return Ok(Value::Table(self.table_of(headers)?));
        }
        if !self.learned {
            self.learn.call::<()>(self.table_of(headers)?)?;
            self.learned = true;
        }
        Ok(Value::Boolean(true))
    }

    fn table_of(&self, headers: &Headers<'_>) -> mlua::Result<Table> {
        let table = self.lua.create_table()?;
        for (name, value) in headers.iter() {
            table.raw_set(name, self.lua.create_string(value)?)?;
        }
        Ok(table)
    }

    /// Returns the delay in whole milliseconds, as in wrk. A result that is not a number is zero.
    pub(super) fn delay(&self) -> Result<Duration, ScriptError> {
        let value = self.delay.call::<Value>(());
        let value = value.map_err(|error| self.error(Callback::Delay, &error))?;
        let milliseconds = self.lua.coerce_number(value).ok().flatten().unwrap_or(0.0);
        Ok(Duration::from_millis(milliseconds.max(0.0) as u64))
    }

    /// Passes the figures to `done`. For the main state.
    pub(super) fn done(&self, figures: &Figures) -> Result<(), ScriptError> {
        let done = || {
            let errors = self.lua.create_table()?;
            let socket = figures.socket_errors;
            for (name, count) in [
                ("connect", socket.connect),
                ("read", socket.read),
                ("write", socket.write),
                ("status", figures.status_errors),
                ("timeout", socket.timeout),
            ] {
                errors.raw_set(name, count)?;
            }
            let summary = self.lua.create_table()?;
            summary.raw_set("duration", figures.runtime.as_micros() as u64)?;
            summary.raw_set("requests", figures.complete)?;
            summary.raw_set("bytes", figures.bytes)?;
            summary.raw_set("errors", errors)?;
            let latency = Statistics(figures.latency.clone());
            let rates = Statistics(figures.rates.clone());
            self.lua.globals().get::<Function>("done")?.call::<()>((summary, latency, rates))
        };
        done().map_err(|error| self.error(Callback::Done, &error))
    }

    /// Flushes the script's output. The C library buffers it unless standard output is a terminal, so bakeoff's own
    /// lines would overtake it.
    pub(super) fn flush(&self) {
        let flush = || {
            let io: Table = self.lua.globals().get("io")?;
            let out: Value = io.get("stdout")?;
            self.lua.load("local out = ... if out then out:flush() end").call::<()>(out)
        };
        let _: mlua::Result<()> = flush(); // a script may have closed stdout
    }

    fn wrk(&self, name: &str) -> mlua::Result<Function> {
        self.lua.globals().get::<Table>("wrk")?.get(name)
    }

    fn error(&self, callback: Callback, error: &Error) -> ScriptError {
        let (thread, file) = (self.thread, self.file.clone());
        ScriptError { callback, thread, file, what: message_of(error) }
    }
}

/// Runs the prelude. Returns the functions that call the script's functions.
fn prelude(lua: &Lua, options: &Options) -> mlua::Result<Table> {
    let Url { scheme, host, port, path, .. } = &options.url;
    let native = lua.create_table()?;
    native.set("scheme", scheme.as_str())?;
    native.set("host", host.as_str())?;
    native.set("port", port.map(|port| port.to_string()))?;
    native.set("path", path.as_str())?;
    let headers = options.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    native.set("headers", lua.create_table_from(headers)?)?;
    let adjacent = options.script.as_deref().and_then(Path::parent);
    native.set(
        "adjacent",
        adjacent.map(|dir| match dir.to_string_lossy() {
            dir if dir.is_empty() => ".".to_owned(),
            dir => dir.into_owned(),
        }),
    )?;
    native.set(
        "lookup",
        lua.create_function(|lua, (host, service): (String, Value)| {
            Ok(match lookup(&host, &service.to_string()?) {
                Ok(found) => {
                    let addresses = found.into_iter().map(Address);
                    (Some(lua.create_sequence_from(addresses)?), None)
                }
                Err(unresolved) => (None, Some(unresolved.to_string())),
            })
        })?,
    )?;
    native.set(
        "connect",
        lua.create_function(|_, address: Address| {
            Ok(TcpStream::connect_timeout(&address.0, CONNECT_WITHIN).is_ok())
        })?,
    )?;
    native.set(
        "traceback",
        lua.create_function(|lua, args: Variadic<Value>| {
            let message = args.first().map(Value::to_string).transpose()?;
            lua.traceback(message.as_deref(), 1)
        })?,
    )?;
    native.set("getinfo", lua.create_function(|lua, what: Value| function_info(lua, &what))?)?;
    lua.load(PRELUDE).set_name("=wrk").call(native)
}

/// Returns `debug.getinfo` of a function, or of the caller at a level. Scripts use it to find their own folder.
fn function_info(lua: &Lua, what: &Value) -> mlua::Result<Option<Table>> {
    let table = lua.create_table()?;
    match what {
        Value::Function(function) => {
            let info = function.info();
            table.set("source", info.source)?;
            table.set("short_src", info.short_src)?;
            table.set("what", info.what)?;
            table.set("linedefined", info.line_defined)?;
            table.set("func", function)?;
        }
        level => {
            let level = lua.coerce_integer(level.clone())?.unwrap_or(1);
            let level = usize::try_from(level).unwrap_or(0);
            let seen = lua.inspect_stack(level, |frame| {
                let source = frame.source();
                table.set("source", source.source.map(|text| text.into_owned()))?;
                table.set("short_src", source.short_src.map(|text| text.into_owned()))?;
                table.set("what", source.what)?;
                table.set("linedefined", source.line_defined)?;
                table.set("currentline", frame.current_line())?;
                table.set("name", frame.names().name.map(|text| text.into_owned()))?;
                table.set("func", frame.function())
            });
            match seen {
                Some(result) => result?,
                None => return Ok(None),
            }
        }
    }
    Ok(Some(table))
}

/// A host and service without addresses.
#[derive(Debug)]
struct UnresolvedHost {
    host: String,
    service: String,
    why: LookupError,
}

#[derive(Debug)]
enum LookupError {
    NoService,
    NoAddresses,
    Resolver(std::io::Error),
}

impl fmt::Display for UnresolvedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unable to resolve {}:{} ", self.host, self.service)?;
        match &self.why {
            LookupError::NoService => f.write_str("no such service"),
            LookupError::NoAddresses => f.write_str("no addresses"),
            LookupError::Resolver(error) => write!(f, "{error}"),
        }
    }
}

/// Resolves a host and a service: a port, `http`, `https`, or a name in `/etc/services`.
fn lookup(host: &str, service: &str) -> Result<Vec<SocketAddr>, UnresolvedHost> {
    let unresolved =
        |why| UnresolvedHost { host: host.to_owned(), service: service.to_owned(), why };
    let port = match (service.parse(), service) {
        (Ok(port), _) => port,
        (Err(_), "http") => 80,
        (Err(_), "https") => 443,
        (Err(_), name) => named_port(name).ok_or_else(|| unresolved(LookupError::NoService))?,
    };
    let addresses =
        (host, port).to_socket_addrs().map_err(|error| unresolved(LookupError::Resolver(error)))?;
    let mut found: Vec<SocketAddr> = Vec::new();
    for address in addresses {
        if !found.contains(&address) {
            found.push(address);
        }
    }
    if found.is_empty() { Err(unresolved(LookupError::NoAddresses)) } else { Ok(found) }
}

fn named_port(name: &str) -> Option<u16> {
    let services = std::fs::read_to_string("/etc/services").ok()?;
    services.lines().find_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace();
        let known = words.next()?;
        let port = words.next()?.strip_suffix("/tcp")?.parse().ok()?;
        (known == name || words.any(|alias| alias == name)).then_some(port)
    })
}

/// Returns a Lua error's message without its traceback. Adds the script's line if the error came from a function of
/// bakeoff.
fn message_of(error: &Error) -> String {
    let text = match error {
        Error::SyntaxError { message, .. } => message.clone(),
        Error::RuntimeError(message) | Error::MemoryError(message) => message.clone(),
        Error::CallbackError { traceback, cause } => {
            let mut innermost = cause;
            while let Error::CallbackError { cause, .. } = &**innermost {
                innermost = cause;
            }
            let what = message_of(innermost);
            let place = traceback.lines().find_map(line_of);
            place.map_or(what.clone(), |place| format!("{place}: {what}"))
        }
        Error::BadArgument { cause, .. } | Error::WithContext { cause, .. } => message_of(cause),
        other => other.to_string(),
    };
    let end = text.find("\nstack traceback:").unwrap_or(text.len());
    let text = text[..end].trim_end();
    // Line numbers in the prelude mean nothing to the user.
    let ours = text.strip_prefix("wrk:").and_then(|rest| rest.split_once(": "));
    match ours {
        Some((line, what)) if line.parse::<u32>().is_ok() => what.to_owned(),
        _ => text.to_owned(),
    }
}

/// Extracts `x.lua:12` from a traceback line such as `x.lua:12: in function 'f'`.
fn line_of(line: &str) -> Option<&str> {
    let (place, _) = line.trim_start().split_once(": in ")?;
    let (file, number) = place.rsplit_once(':')?;
    let ours = file == "wrk" || file.starts_with("__mlua");
    (!ours && number.parse::<u32>().is_ok()).then_some(place)
}

#[cfg(test)]
mod tests;
