//! The durable state: what the disk is certain to hold.
//!
//! Changes of names and sizes wait in one ordered journal, and the durable state always is a prefix of it: jbd2 commits
//! transactions in order. Written blocks wait with their file, which is live.
//!
//! Not here: what programs see (`image`), when a sync commits (`image`), what a power cut keeps besides (`cut`).

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::OsString;

use super::Kind;
use crate::content::{Block, Content};

/// A file as the disk is certain to hold it.
#[derive(Debug)]
pub(super) struct Durable {
    pub(super) node: DurableNode,
    pub(super) links: u32,
}

#[derive(Debug)]
pub(super) enum DurableNode {
    File(Content),
    Directory(BTreeMap<OsString, u64>),
    Other,
}

type Entry = (u64, OsString);

/// A journalled change.
#[derive(Debug)]
pub(super) enum Change {
    Create {
        at: Entry,
        inode: u64,
        node: Kind,
    },
    Link {
        at: Entry,
        inode: u64,
    },
    Unlink {
        at: Entry,
    },
    Rename {
        from: Entry,
        to: Entry,
    },
    Exchange {
        one: Entry,
        other: Entry,
    },
    Resize {
        inode: u64,
        size: u64,
    },
    Zero {
        inode: u64,
        offset: u64,
        length: u64,
    },
    /// Blocks that ext4 allocates with the next change, and so writes before it commits that.
    Blocks {
        inode: u64,
        size: u64,
        blocks: Vec<(u64, Block)>,
    },
}

/// The durable files, and the changes that wait for a commit.
#[derive(Debug)]
pub(super) struct Disk {
    files: HashMap<u64, Durable>,
    /// Changes that are not durable.
    journal: VecDeque<Change>,
    /// Number of changes that are durable.
    committed: u64,
}

impl Disk {
    /// Creates a disk that holds an empty directory.
    pub(super) fn new(root: u64) -> Self {
        let durable = Durable { node: DurableNode::Directory(BTreeMap::new()), links: 1 };
        Self { files: [(root, durable)].into(), journal: VecDeque::new(), committed: 0 }
    }

    /// Returns the position after the newest change.
    pub(super) fn position(&self) -> u64 {
        self.committed + self.pending()
    }

    /// Returns the position up to which changes are durable.
    pub(super) fn committed(&self) -> u64 {
        self.committed
    }

    /// Returns the number of changes that are not durable.
    pub(super) fn pending(&self) -> u64 {
        self.journal.len() as u64
    }

    /// Appends a change to the journal. Returns its position.
    pub(super) fn log(&mut self, change: Change) -> u64 {
        self.journal.push_back(change);
        self.position()
    }

    /// Makes the journal durable up to a position. Returns the files that the disk no longer holds.
    pub(super) fn commit(&mut self, upto: u64) -> Vec<u64> {
        let mut gone = Vec::new();
        while self.committed < upto
            && let Some(change) = self.journal.pop_front()
        {
            self.committed += 1;
            gone.extend(self.apply(change));
        }
        gone
    }

    /// Drops all changes that are not durable.
    pub(super) fn drop_pending(&mut self) {
        self.journal.clear();
    }

    /// Returns all durable files with their numbers.
    pub(super) fn files(&self) -> impl Iterator<Item = (u64, &Durable)> {
        self.files.iter().map(|(&number, durable)| (number, durable))
    }

    /// Returns true if the disk holds a file.
    pub(super) fn holds(&self, inode: u64) -> bool {
        self.files.contains_key(&inode)
    }

    /// Returns the durable content of a regular file.
    pub(super) fn content(&self, inode: u64) -> Option<&Content> {
        match &self.files.get(&inode)?.node {
            DurableNode::File(content) => Some(content),
            DurableNode::Directory(_) | DurableNode::Other => None,
        }
    }

    pub(super) fn content_mut(&mut self, inode: u64) -> Option<&mut Content> {
        match &mut self.files.get_mut(&inode)?.node {
            DurableNode::File(content) => Some(content),
            DurableNode::Directory(_) | DurableNode::Other => None,
        }
    }

    /// Makes one change durable. Returns the file that this removed.
    fn apply(&mut self, change: Change) -> Option<u64> {
        match change {
            Change::Create { at, inode, node } => {
                let node = match node {
                    Kind::File => DurableNode::File(Content::default()),
                    Kind::Directory => DurableNode::Directory(BTreeMap::new()),
                    Kind::Link(_) | Kind::Special(_) => DurableNode::Other,
                };
                self.files.insert(inode, Durable { node, links: 1 });
                self.set_entry(at, inode);
            }
            Change::Link { at, inode } => {
                if let Some(durable) = self.files.get_mut(&inode) {
                    durable.links += 1;
                }
                self.set_entry(at, inode);
            }
            Change::Unlink { at } => {
                let gone = self.take_entry(&at);
                return self.unlinked(gone);
            }
            Change::Rename { from, to } => {
                let replaced = self.take_entry(&to);
                let gone = self.unlinked(replaced);
                if let Some(inode) = self.take_entry(&from) {
                    self.set_entry(to, inode);
                }
                return gone;
            }
            Change::Exchange { one, other } => {
                let both = (self.take_entry(&one), self.take_entry(&other));
                if let (Some(first), Some(second)) = both {
                    self.set_entry(one, second);
                    self.set_entry(other, first);
                }
            }
            Change::Resize { inode, size } => {
                if let Some(content) = self.content_mut(inode) {
                    content.resize(size);
                }
            }
            Change::Zero { inode, offset, length } => {
                if let Some(content) = self.content_mut(inode) {
                    content.zero(offset, length);
                }
            }
            Change::Blocks { inode, size, blocks } => {
                if let Some(content) = self.content_mut(inode) {
                    content.blocks.extend(blocks);
                    content.size = size;
                }
            }
        }
        None
    }

    fn set_entry(&mut self, (parent, name): Entry, inode: u64) {
        if let Some(Durable { node: DurableNode::Directory(entries), .. }) =
            self.files.get_mut(&parent)
        {
            entries.insert(name, inode);
        }
    }

    fn take_entry(&mut self, (parent, name): &Entry) -> Option<u64> {
        match &mut self.files.get_mut(parent)?.node {
            DurableNode::Directory(entries) => entries.remove(name),
            DurableNode::File(_) | DurableNode::Other => None,
        }
    }

    /// Removes a link to a file. Returns the file if that was its last.
    fn unlinked(&mut self, inode: Option<u64>) -> Option<u64> {
        let inode = inode?;
        let durable = self.files.get_mut(&inode)?;
        durable.links = durable.links.saturating_sub(1);
        if durable.links > 0 {
            return None;
        }
        self.files.remove(&inode);
        Some(inode)
    }
}
