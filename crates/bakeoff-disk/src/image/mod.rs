//! A file system in memory that knows what would survive a power cut.
//!
//! It has two states. The *live* one is what programs see. The *durable* one is what a disk with ext4 (`data=ordered`,
//! `auto_da_alloc`, the defaults) is certain to hold. `docs/method/correctness.md` lists the rules with their sources.
//!
//! Not here: the durable state (`disk`), power cuts (`cut`), the protocol of the kernel (`mount`).

mod cut;
mod disk;

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::time::SystemTime;

use rustix::io::Errno;

#[cfg(test)]
pub(crate) use self::cut::Dice;
pub use self::cut::{CutLosses, UnsyncedFate};
use self::disk::{Change, Disk};
use crate::content::{BLOCK, Content};

/// Number of the root directory, as FUSE demands.
pub(crate) const ROOT: u64 = 1;

/// Type of a new file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    Link(OsString),
    /// A socket or a pipe, with its type bits.
    Special(u32),
}

/// Selects whether a rename may replace a file of the new name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replace {
    Yes,
    No,
}

/// Metadata that is not rolled back: no server's data depends on it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attributes {
    /// Permission bits, without the type.
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) accessed: SystemTime,
    pub(crate) modified: SystemTime,
    pub(crate) changed: SystemTime,
}

impl Attributes {
    pub(crate) fn new(mode: u32, (uid, gid): (u32, u32), now: SystemTime) -> Self {
        Self { mode, uid, gid, accessed: now, modified: now, changed: now }
    }
}

/// A file as programs see it.
#[derive(Debug)]
struct Inode {
    attributes: Attributes,
    node: Node,
    links: u32,
    opens: u32,
    /// Journal position that an `fsync` of it has to commit.
    synced_at: u64,
    /// Journal position that an `fdatasync` of it has to commit.
    data_synced_at: u64,
    /// Bytes from the beginning that have their place on the disk, written or not.
    reserved: u64,
}

#[derive(Debug, Clone)]
enum Node {
    File {
        content: Content,
        /// Blocks written since their last sync, with the journal position at the write.
        dirty: BTreeMap<u64, u64>,
        /// Cut to nothing since it was opened, which `auto_da_alloc` looks for when it is closed.
        replaced: bool,
    },
    Directory {
        entries: BTreeMap<OsString, u64>,
        parent: u64,
    },
    Link(OsString),
    Special(u32),
}

/// A file system in memory.
#[derive(Debug)]
pub(crate) struct Image {
    inodes: HashMap<u64, Inode>,
    disk: Disk,
    next: u64,
    syncs: u64,
    /// Most blocks of live files.
    blocks_max: u64,
    blocks: u64,
    /// True while nothing gets space.
    is_full: bool,
}

type ErrnoResult<T> = Result<T, Errno>;

impl Image {
    /// Creates an empty file system of at most `bytes_max` bytes.
    pub(crate) fn new(attributes: Attributes, bytes_max: u64) -> Self {
        let root = Inode::new(attributes, Node::new(&Kind::Directory, ROOT), 0);
        Self {
            inodes: [(ROOT, root)].into(),
            disk: Disk::new(ROOT),
            next: ROOT + 1,
            syncs: 0,
            blocks_max: bytes_max / BLOCK as u64,
            blocks: 0,
            is_full: false,
        }
    }

    /// Refuses what needs space from now on, or no longer.
    pub(crate) fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
    }

    /// Returns the number of a directory's entry.
    pub(crate) fn lookup(&self, parent: u64, name: &OsStr) -> ErrnoResult<u64> {
        let Node::Directory { entries, parent: above } = &self.inode(parent)?.node else {
            return Err(Errno::NOTDIR);
        };
        match name.as_encoded_bytes() {
            b"." => Ok(parent),
            b".." => Ok(*above),
            _ => entries.get(name).copied().ok_or(Errno::NOENT),
        }
    }

    pub(crate) fn attributes(&self, inode: u64) -> ErrnoResult<Attributes> {
        Ok(self.inode(inode)?.attributes)
    }

    pub(crate) fn attributes_mut(&mut self, inode: u64) -> ErrnoResult<&mut Attributes> {
        Ok(&mut self.inode_mut(inode)?.attributes)
    }

    /// Returns type, size in bytes, allocated blocks, and links.
    pub(crate) fn shape(&self, inode: u64) -> ErrnoResult<(Kind, u64, u64, u32)> {
        let found = self.inode(inode)?;
        Ok(match &found.node {
            Node::File { content, .. } => {
                (Kind::File, content.size, content.blocks.len() as u64, found.links)
            }
            Node::Directory { .. } => (Kind::Directory, BLOCK as u64, 1, 2),
            Node::Link(to) => (Kind::Link(to.clone()), to.len() as u64, 0, found.links),
            Node::Special(bits) => (Kind::Special(*bits), 0, 0, found.links),
        })
    }

    /// Returns the entries of a directory, without `.` and `..`.
    pub(crate) fn entries(&self, inode: u64) -> ErrnoResult<Vec<(OsString, u64)>> {
        match &self.inode(inode)?.node {
            Node::Directory { entries, .. } => {
                Ok(entries.iter().map(|(name, &inode)| (name.clone(), inode)).collect())
            }
            _ => Err(Errno::NOTDIR),
        }
    }

    /// Creates a file, directory, link or socket.
    pub(crate) fn create(
        &mut self,
        (parent, name): (u64, &OsStr),
        node: Kind,
        attributes: Attributes,
    ) -> ErrnoResult<u64> {
        if self.entries_mut(parent)?.contains_key(name) {
            return Err(Errno::EXIST);
        }
        if self.is_full {
            return Err(Errno::NOSPC);
        }
        let inode = self.next;
        self.next += 1;
        self.entries_mut(parent)?.insert(name.to_owned(), inode);
        let live = Node::new(&node, parent);
        let at = (parent, name.to_owned());
        let position = self.disk.log(Change::Create { at, inode, node });
        self.inodes.insert(inode, Inode::new(attributes, live, position));
        self.changed(parent, position, attributes.changed);
        Ok(inode)
    }

    pub(crate) fn link(
        &mut self,
        inode: u64,
        (parent, name): (u64, &OsStr),
        now: SystemTime,
    ) -> ErrnoResult<()> {
        if matches!(self.inode(inode)?.node, Node::Directory { .. }) {
            return Err(Errno::PERM);
        }
        if self.entries_mut(parent)?.contains_key(name) {
            return Err(Errno::EXIST);
        }
        self.entries_mut(parent)?.insert(name.to_owned(), inode);
        let position = self.disk.log(Change::Link { at: (parent, name.to_owned()), inode });
        let found = self.inode_mut(inode)?;
        (found.links, found.synced_at) = (found.links + 1, position);
        self.changed(parent, position, now);
        Ok(())
    }

    /// Removes a name. `directory`: whether it has to be an empty directory, or must be none.
    pub(crate) fn unlink(
        &mut self,
        (parent, name): (u64, &OsStr),
        directory: bool,
        now: SystemTime,
    ) -> ErrnoResult<()> {
        let inode = *self.entries_mut(parent)?.get(name).ok_or(Errno::NOENT)?;
        match (&self.inode(inode)?.node, directory) {
            (Node::Directory { entries, .. }, true) if !entries.is_empty() => {
                return Err(Errno::NOTEMPTY);
            }
            (Node::Directory { .. }, false) => return Err(Errno::ISDIR),
            (Node::Directory { .. }, true) | (_, false) => {}
            (_, true) => return Err(Errno::NOTDIR),
        }
        self.entries_mut(parent)?.remove(name);
        let position = self.disk.log(Change::Unlink { at: (parent, name.to_owned()) });
        self.changed(parent, position, now);
        self.unlinked(inode, position);
        Ok(())
    }

    /// Renames a file or directory.
    pub(crate) fn rename(
        &mut self,
        (from, old): (u64, &OsStr),
        (to, new): (u64, &OsStr),
        flags: Replace,
        now: SystemTime,
    ) -> ErrnoResult<()> {
        let inode = *self.entries_mut(from)?.get(old).ok_or(Errno::NOENT)?;
        let replaced = self.entries_mut(to)?.get(new).copied();
        if replaced == Some(inode) {
            return Ok(());
        }
        if let Some(replaced) = replaced {
            if flags == Replace::No {
                return Err(Errno::EXIST);
            }
            let is_directory = matches!(self.inode(inode)?.node, Node::Directory { .. });
            match &self.inode(replaced)?.node {
                Node::Directory { entries, .. } if !entries.is_empty() => {
                    return Err(Errno::NOTEMPTY);
                }
                Node::Directory { .. } if !is_directory => return Err(Errno::ISDIR),
                Node::Directory { .. } => {}
                _ if is_directory => return Err(Errno::NOTDIR),
                _ => {}
            }
            // `auto_da_alloc`: a rename that replaces a file carries its data.
            self.log_blocks(inode);
        }
        self.entries_mut(from)?.remove(old);
        self.entries_mut(to)?.insert(new.to_owned(), inode);
        let (old, new) = ((from, old.to_owned()), (to, new.to_owned()));
        let position = self.disk.log(Change::Rename { from: old, to: new });
        self.moved(inode, to, position);
        self.changed(from, position, now);
        self.changed(to, position, now);
        if let Some(replaced) = replaced {
            self.unlinked(replaced, position);
        }
        Ok(())
    }

    /// Exchanges two names.
    pub(crate) fn exchange(
        &mut self,
        (from, old): (u64, &OsStr),
        (to, new): (u64, &OsStr),
        now: SystemTime,
    ) -> ErrnoResult<()> {
        let one = *self.entries_mut(from)?.get(old).ok_or(Errno::NOENT)?;
        let other = *self.entries_mut(to)?.get(new).ok_or(Errno::NOENT)?;
        self.entries_mut(from)?.insert(old.to_owned(), other);
        self.entries_mut(to)?.insert(new.to_owned(), one);
        let (old, new) = ((from, old.to_owned()), (to, new.to_owned()));
        let position = self.disk.log(Change::Exchange { one: old, other: new });
        self.moved(one, to, position);
        self.moved(other, from, position);
        self.changed(from, position, now);
        self.changed(to, position, now);
        Ok(())
    }

    pub(crate) fn opened(&mut self, inode: u64) -> ErrnoResult<()> {
        self.inode_mut(inode)?.opens += 1;
        Ok(())
    }

    /// Closes a file. The blocks of one that was cut to nothing and written again are allocated with the next change.
    pub(crate) fn closed(&mut self, inode: u64) {
        let Ok(found) = self.inode_mut(inode) else { return };
        found.opens = found.opens.saturating_sub(1);
        if let Node::File { replaced, .. } = &mut found.node
            && std::mem::take(replaced)
        {
            self.log_blocks(inode);
        }
        self.forget_if_gone(inode);
    }

    pub(crate) fn read(&self, inode: u64, offset: u64, length: usize) -> ErrnoResult<Vec<u8>> {
        match &self.inode(inode)?.node {
            Node::File { content, .. } => Ok(content.read(offset, length)),
            _ => Err(Errno::ISDIR),
        }
    }

    pub(crate) fn write(
        &mut self,
        inode: u64,
        offset: u64,
        data: &[u8],
        now: SystemTime,
    ) -> ErrnoResult<()> {
        let (position, room) = (self.disk.position(), self.blocks_max.saturating_sub(self.blocks));
        let end = offset + data.len() as u64;
        if self.is_full && self.needs_space(inode, offset, end)? {
            return Err(Errno::NOSPC);
        }
        let found = self.inode_mut(inode)?;
        (found.attributes.modified, found.attributes.changed) = (now, now);
        let Node::File { content, dirty, .. } = &mut found.node else { return Err(Errno::ISDIR) };
        if (data.len() / BLOCK) as u64 + 2 > room {
            return Err(Errno::NOSPC);
        }
        let before = content.blocks.len();
        content.write(offset, data, |number| {
            dirty.insert(number, position);
        });
        let more = content.blocks.len() - before;
        self.blocks += more as u64;
        Ok(())
    }

    /// Gives bytes of a file their place on the disk, so that writing them needs no space.
    pub(crate) fn reserve(&mut self, inode: u64, from: u64, end: u64) -> ErrnoResult<()> {
        if self.is_full && self.needs_space(inode, from, end)? {
            return Err(Errno::NOSPC);
        }
        let found = self.inode_mut(inode)?;
        if from <= found.reserved {
            found.reserved = found.reserved.max(end);
        }
        Ok(())
    }

    /// Returns true if some of these bytes of a file have no place on the disk.
    fn needs_space(&self, inode: u64, from: u64, end: u64) -> ErrnoResult<bool> {
        let found = self.inode(inode)?;
        let Node::File { content, .. } = &found.node else { return Err(Errno::ISDIR) };
        let block = BLOCK as u64;
        let mut unreserved =
            (from / block).max(found.reserved.div_ceil(block))..end.div_ceil(block);
        Ok(unreserved.any(|number| !content.blocks.contains_key(&number)))
    }

    pub(crate) fn resize(&mut self, inode: u64, size: u64, now: SystemTime) -> ErrnoResult<()> {
        let Node::File { content, .. } = &self.inode(inode)?.node else {
            return Err(Errno::INVAL);
        };
        if content.size == size {
            return Ok(());
        }
        let is_shorter = size < content.size;
        let position = self.disk.log(Change::Resize { inode, size });
        self.reshape(inode, position, now, |content| content.resize(size))?;
        let found = self.inode_mut(inode)?;
        found.reserved = if is_shorter { found.reserved.min(size) } else { found.reserved };
        if let Node::File { replaced, .. } = &mut found.node {
            *replaced |= size == 0;
        }
        Ok(())
    }

    /// Sets bytes to zero and frees their blocks.
    pub(crate) fn zero(
        &mut self,
        inode: u64,
        offset: u64,
        length: u64,
        now: SystemTime,
    ) -> ErrnoResult<()> {
        let position = self.disk.log(Change::Zero { inode, offset, length });
        self.reshape(inode, position, now, |content| content.zero(offset, length))
    }

    fn reshape(
        &mut self,
        inode: u64,
        position: u64,
        now: SystemTime,
        change: impl FnOnce(&mut Content),
    ) -> ErrnoResult<()> {
        let found = self.inode_mut(inode)?;
        let Node::File { content, dirty, .. } = &mut found.node else {
            return Err(Errno::INVAL);
        };
        let before = content.blocks.len();
        change(content);
        dirty.retain(|number, _| content.blocks.contains_key(number));
        let freed = before - content.blocks.len();
        (found.synced_at, found.data_synced_at) = (position, position);
        (found.attributes.modified, found.attributes.changed) = (now, now);
        self.blocks -= freed as u64;
        Ok(())
    }

    /// Makes a file or directory durable: `fsync`, or `fdatasync` if `data_only`.
    ///
    /// Commits the journal as far as the file's own changes demand, and all of it if the file needs new blocks: their
    /// allocation belongs to the newest transaction.
    pub(crate) fn sync(&mut self, inode: u64, data_only: bool) -> ErrnoResult<()> {
        self.syncs += 1;
        self.make_durable(inode, data_only)
    }

    fn make_durable(&mut self, inode: u64, data_only: bool) -> ErrnoResult<()> {
        let found = self.inode(inode)?;
        let upto = if data_only { found.data_synced_at } else { found.synced_at };
        self.commit(upto);
        if self.needs_blocks(inode) {
            self.commit(self.disk.position());
        }
        let Some(Inode { node: Node::File { content, dirty, .. }, .. }) =
            self.inodes.get_mut(&inode)
        else {
            return Ok(());
        };
        let dirty = std::mem::take(dirty);
        if let Some(durable) = self.disk.content_mut(inode) {
            for number in dirty.into_keys() {
                durable.blocks.extend(content.blocks.get(&number).map(|b| (number, Arc::clone(b))));
            }
            durable.size = content.size;
        }
        Ok(())
    }

    /// Makes everything durable.
    pub(crate) fn sync_all(&mut self) {
        let mut all: Vec<u64> = self.inodes.keys().copied().collect();
        all.sort_unstable();
        self.commit(self.disk.position());
        for inode in all {
            self.make_durable(inode, false).ok();
        }
    }

    /// Returns true if the durable file lacks a block or has another size, so that a sync begins a transaction.
    fn needs_blocks(&self, inode: u64) -> bool {
        let Some(Inode { node: Node::File { content, dirty, .. }, .. }) = self.inodes.get(&inode)
        else {
            return false;
        };
        self.disk.content(inode).is_none_or(|durable| {
            durable.size != content.size
                || dirty.keys().any(|number| !durable.blocks.contains_key(number))
        })
    }

    /// Makes the journal durable up to a position.
    fn commit(&mut self, upto: u64) {
        for gone in self.disk.commit(upto) {
            self.forget_if_gone(gone);
        }
    }

    /// Logs the blocks that a file has written and not allocated.
    fn log_blocks(&mut self, inode: u64) {
        let Some(Inode { node: Node::File { content, dirty, .. }, .. }) = self.inodes.get(&inode)
        else {
            return;
        };
        if dirty.is_empty() {
            return;
        }
        let blocks = dirty.keys().map(|&number| (number, Arc::clone(&content.blocks[&number])));
        let change = Change::Blocks { inode, size: content.size, blocks: blocks.collect() };
        let position = self.disk.log(change);
        if let Some(found) = self.inodes.get_mut(&inode) {
            (found.synced_at, found.data_synced_at) = (position, position);
        }
    }

    fn inode(&self, inode: u64) -> ErrnoResult<&Inode> {
        self.inodes.get(&inode).ok_or(Errno::NOENT)
    }

    fn inode_mut(&mut self, inode: u64) -> ErrnoResult<&mut Inode> {
        self.inodes.get_mut(&inode).ok_or(Errno::NOENT)
    }

    fn entries_mut(&mut self, directory: u64) -> ErrnoResult<&mut BTreeMap<OsString, u64>> {
        match &mut self.inode_mut(directory)?.node {
            Node::Directory { entries, .. } => Ok(entries),
            _ => Err(Errno::NOTDIR),
        }
    }

    fn changed(&mut self, directory: u64, position: u64, now: SystemTime) {
        if let Some(found) = self.inodes.get_mut(&directory) {
            (found.synced_at, found.data_synced_at) = (position, position);
            (found.attributes.modified, found.attributes.changed) = (now, now);
        }
    }

    fn moved(&mut self, inode: u64, to: u64, position: u64) {
        if let Some(found) = self.inodes.get_mut(&inode) {
            found.synced_at = position;
            if let Node::Directory { parent, .. } = &mut found.node {
                *parent = to;
            }
        }
    }

    fn unlinked(&mut self, inode: u64, position: u64) {
        if let Some(found) = self.inodes.get_mut(&inode) {
            found.links = found.links.saturating_sub(1);
            found.synced_at = position;
        }
        self.forget_if_gone(inode);
    }

    /// Frees a file that has no name, is not open and is not on the disk. One that is on the disk keeps its attributes.
    fn forget_if_gone(&mut self, inode: u64) {
        let Some(found) = self.inodes.get_mut(&inode) else { return };
        if found.links > 0 || found.opens > 0 {
            return;
        }
        if let Node::File { content, dirty, .. } = &mut found.node {
            self.blocks -= content.blocks.len() as u64;
            (*content, *dirty) = (Content::default(), BTreeMap::new());
        }
        if !self.disk.holds(inode) && self.disk.pending() == 0 {
            self.inodes.remove(&inode);
        }
    }

    /// Returns the bytes that it may hold, and those that it holds.
    pub(crate) fn room(&self) -> (u64, u64) {
        let held = if self.is_full { self.blocks_max } else { self.blocks };
        (self.blocks_max * BLOCK as u64, held * BLOCK as u64)
    }
}

impl Inode {
    fn new(attributes: Attributes, node: Node, position: u64) -> Self {
        Self {
            attributes,
            node,
            links: 1,
            opens: 0,
            synced_at: position,
            data_synced_at: position,
            reserved: 0,
        }
    }
}

impl Node {
    fn new(kind: &Kind, parent: u64) -> Self {
        match kind {
            Kind::File => {
                Self::File { content: Content::default(), dirty: BTreeMap::new(), replaced: false }
            }
            Kind::Directory => Self::Directory { entries: BTreeMap::new(), parent },
            Kind::Link(to) => Self::Link(to.clone()),
            Kind::Special(bits) => Self::Special(*bits),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_disk_refuses_what_needs_space_and_nothing_else() {
        let now = SystemTime::UNIX_EPOCH;
        let attributes = Attributes::new(0o700, (0, 0), now);
        let mut image = Image::new(attributes, 1 << 20);
        let mut file =
            |name: &str| image.create((ROOT, OsStr::new(name)), Kind::File, attributes).unwrap();
        let (written, reserved) = (file("written"), file("reserved"));
        image.write(written, 0, &[1; 6000], now).unwrap();
        image.reserve(reserved, 0, 20_000).unwrap();
        image.resize(reserved, 20_000, now).unwrap();
        image.set_full(true);
        assert_eq!(image.room().0, image.room().1, "none is free");
        image.write(written, 0, &[2; 8192], now).unwrap();
        image.write(reserved, 0, &[3; 20_000], now).unwrap();
        for end in [8193, 100_000] {
            let grown = image.write(written, 0, &vec![4; end], now);
            assert_eq!(grown, Err(Errno::NOSPC));
        }
        assert_eq!(image.read(written, 0, 1).unwrap(), [2], "a refused write changes nothing");
        assert_eq!(image.reserve(written, 8192, 9000), Err(Errno::NOSPC));
        let more = image.create((ROOT, OsStr::new("more")), Kind::File, attributes);
        assert_eq!(more, Err(Errno::NOSPC));
        image.unlink((ROOT, OsStr::new("reserved")), false, now).unwrap();
        image.set_full(false);
        image.write(written, 8192, &[5], now).unwrap();
    }
}
