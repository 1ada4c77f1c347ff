//! Implements Jute, ZooKeeper's encoding: big-endian numbers and length-prefixed values.

use crate::ProtocolError;

/// Holds the metadata of a node (`org.apache.zookeeper.data.Stat`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stat {
    /// Transaction that created it.
    pub czxid: i64,
    /// Transaction that last set its content.
    pub mzxid: i64,
    /// Creation time in milliseconds since 1970.
    pub ctime_ms: i64,
    /// Time of the last change of its content, in milliseconds since 1970.
    pub mtime_ms: i64,
    /// Number of changes of its content.
    pub version: i32,
    /// Number of changes of its children.
    pub cversion: i32,
    /// Number of changes of its access list.
    pub aversion: i32,
    /// Session that owns an ephemeral node, otherwise 0.
    pub ephemeral_owner: i64,
    /// Size of its content in bytes.
    pub data_length: i32,
    /// Number of its children.
    pub num_children: i32,
    /// Transaction that last added or removed a child.
    pub pzxid: i64,
}

/// Iterates over the names of children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Children<'a> {
    rest: Reader<'a>,
    left: usize,
}

impl<'a> Iterator for Children<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        self.left = self.left.checked_sub(1)?;
        self.rest.string().ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Children<'_> {}

pub(super) fn framed(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    put_int(out, 0);
    write(out);
    let length = out.len() - start - 4;
    if let Some(place) = out.get_mut(start..start + 4) {
        place.copy_from_slice(&(length as i32).to_be_bytes());
    }
}

pub(super) fn put_int(out: &mut Vec<u8>, value: i32) {
    out.extend_from_slice(&value.to_be_bytes());
}

pub(super) fn put_long(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(&value.to_be_bytes());
}

pub(super) fn put_buffer(out: &mut Vec<u8>, value: &[u8]) {
    put_int(out, value.len() as i32);
    out.extend_from_slice(value);
}

/// Decodes jute values from the front of a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], ProtocolError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or("a truncated reply")?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(super) fn int(&mut self) -> Result<i32, ProtocolError> {
        self.array().map(i32::from_be_bytes)
    }

    pub(super) fn long(&mut self) -> Result<i64, ProtocolError> {
        self.array().map(i64::from_be_bytes)
    }

    pub(super) fn bool(&mut self) -> Result<bool, ProtocolError> {
        self.array().map(|[byte]| byte != 0)
    }

    /// Reads a buffer. A length of -1 stands for null, which is read as empty.
    pub(super) fn buffer(&mut self) -> Result<&'a [u8], ProtocolError> {
        let length = match self.int()? {
            -1 => 0,
            length => usize::try_from(length).map_err(|_| "a negative length")?,
        };
        let (taken, rest) = self.0.split_at_checked(length).ok_or("a truncated reply")?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn string(&mut self) -> Result<&'a str, ProtocolError> {
        std::str::from_utf8(self.buffer()?).map_err(|_| "text that is not UTF-8".into())
    }

    pub(super) fn stat(&mut self) -> Result<Stat, ProtocolError> {
        Ok(Stat {
            czxid: self.long()?,
            mzxid: self.long()?,
            ctime_ms: self.long()?,
            mtime_ms: self.long()?,
            version: self.int()?,
            cversion: self.int()?,
            aversion: self.int()?,
            ephemeral_owner: self.long()?,
            data_length: self.int()?,
            num_children: self.int()?,
            pzxid: self.long()?,
        })
    }

    /// Checks all names now, so that iterating cannot fail.
    pub(super) fn children(&mut self) -> Result<Children<'a>, ProtocolError> {
        let left = usize::try_from(self.int()?.max(0)).unwrap_or(0);
        let children = Children { rest: self.clone(), left };
        for _ in 0..left {
            self.string()?;
        }
        Ok(children)
    }

    pub(super) fn end(&self) -> Result<(), ProtocolError> {
        match self.0.len() {
            0 => Ok(()),
            left => Err(ProtocolError::new(format!("a reply that is {left} bytes too long"))),
        }
    }
}
