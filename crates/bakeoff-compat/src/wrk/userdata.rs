//! Defines the objects that scripts receive (addresses, threads, statistics), and copies values between Lua states.
//!
//! Not here: the calls of scripts (`script`), the `wrk.…` functions (`prelude.lua`).

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use mlua::{
    Error, FromLua, Lua, MetaMethod, Table, UserData, UserDataFields, UserDataMethods, Value,
    WeakLua,
};

use super::spread::Spread;

/// Deepest nesting of a table passed to another thread; deeper tables are assumed to contain themselves.
const DEPTH_MAX: usize = 64;

/// A server's address, as returned by `wrk.lookup`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Address(pub(super) SocketAddr);

impl UserData for Address {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::ToString, |_, this, ()| Ok(this.0.to_string()));
    }
}

impl FromLua for Address {
    fn from_lua(value: Value, _: &Lua) -> mlua::Result<Self> {
        let address = value.as_userdata().and_then(|data| data.borrow::<Self>().ok());
        address.map(|address| *address).ok_or_else(|| {
            Error::runtime(format!(
                "an address from wrk.lookup expected, got {}",
                value.type_name()
            ))
        })
    }
}

/// A load thread, passed to `setup` and available as `wrk.thread`.
#[derive(Clone)]
pub(super) struct ThreadHandle {
    lua: WeakLua,
    state: Arc<ThreadState>,
}

/// State of one thread, shared by its handles.
#[derive(Debug, Default)]
pub(super) struct ThreadState {
    address: Mutex<Option<SocketAddr>>,
    stopped: AtomicBool,
}

impl ThreadState {
    /// Returns the address that the thread connects to.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        *self.address.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the script stopped the thread.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

impl ThreadHandle {
    pub(super) fn new(lua: &Lua, state: Arc<ThreadState>) -> Self {
        Self { lua: lua.weak(), state }
    }

    fn globals(&self) -> mlua::Result<(Lua, Table)> {
        let lua = self.lua.try_upgrade().ok_or_else(|| Error::runtime("the thread has ended"))?;
        let globals = lua.globals();
        Ok((lua, globals))
    }
}

impl UserData for ThreadHandle {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("addr", |_, this| Ok(this.state.address().map(Address)));
        fields.add_field_method_set("addr", |_, this, address: Address| {
            let mut place = this.state.address.lock().unwrap_or_else(PoisonError::into_inner);
            *place = Some(address.0);
            Ok(())
        });
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("get", |lua, this, name: Value| {
            let (theirs, globals) = this.globals()?;
            let name = Portable::copy(&name, 0)?.into_lua(&theirs)?;
            Portable::copy(&globals.get::<Value>(name)?, 0)?.into_lua(lua)
        });
        methods.add_method("set", |_, this, (name, value): (Value, Value)| {
            let (theirs, globals) = this.globals()?;
            let name = Portable::copy(&name, 0)?.into_lua(&theirs)?;
            globals.set(name, Portable::copy(&value, 0)?.into_lua(&theirs)?)
        });
        methods.add_method("stop", |_, this, ()| {
            this.state.stopped.store(true, Ordering::Relaxed);
            Ok(())
        });
    }
}

/// A value copied from one Lua state to another, because states share nothing.
enum Portable {
    Nil,
    Boolean(bool),
    Number(f64),
    Integer(i64),
    Text(Vec<u8>),
    Table(Vec<(Portable, Portable)>),
}

impl Portable {
    fn copy(value: &Value, depth: usize) -> mlua::Result<Self> {
        Ok(match value {
            Value::Nil => Self::Nil,
            Value::Boolean(value) => Self::Boolean(*value),
            Value::Integer(value) => Self::Integer(*value),
            Value::Number(value) => Self::Number(*value),
            Value::String(text) => Self::Text(text.as_bytes().to_vec()),
            Value::Table(_) if depth == DEPTH_MAX => {
                return Err(Error::runtime("cannot transfer a table that holds itself to thread"));
            }
            Value::Table(table) => {
                let mut entries = Vec::new();
                for entry in table.pairs::<Value, Value>() {
                    let (key, value) = entry?;
                    entries.push((Self::copy(&key, depth + 1)?, Self::copy(&value, depth + 1)?));
                }
                Self::Table(entries)
            }
            other => {
                let kind = other.type_name();
                return Err(Error::runtime(format!("cannot transfer '{kind}' to thread")));
            }
        })
    }

    fn into_lua(self, lua: &Lua) -> mlua::Result<Value> {
        Ok(match self {
            Self::Nil => Value::Nil,
            Self::Boolean(value) => Value::Boolean(value),
            Self::Number(value) => Value::Number(value),
            Self::Integer(value) => Value::Integer(value),
            Self::Text(bytes) => Value::String(lua.create_string(bytes)?),
            Self::Table(entries) => {
                let table = lua.create_table()?;
                for (key, value) in entries {
                    table.raw_set(key.into_lua(lua)?, value.into_lua(lua)?)?;
                }
                Value::Table(table)
            }
        })
    }
}

/// A distribution, as passed to `done`.
pub(super) struct Statistics(pub(super) Spread);

impl UserData for Statistics {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("min", |_, this| Ok(this.0.min()));
        fields.add_field_method_get("max", |_, this| Ok(this.0.max()));
        fields.add_field_method_get("mean", |_, this| Ok(this.0.mean()));
        fields.add_field_method_get("stdev", |_, this| Ok(this.0.stdev()));
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods
            .add_method("percentile", |_, this, percentile: f64| Ok(this.0.percentile(percentile)));
        methods.add_meta_method(MetaMethod::Call, |_, this, index: f64| {
            let entry = this.0.values().get((index as usize).wrapping_sub(1));
            Ok(entry.copied().unwrap_or((0, 0)))
        });
        methods.add_meta_method(MetaMethod::Len, |_, this, ()| Ok(this.0.len()));
    }
}
