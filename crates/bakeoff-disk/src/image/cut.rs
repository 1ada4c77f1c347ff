//! Cuts the power of a file system: what was not synced is lost, or a seeded part of it is kept.
//!
//! Not here: what a commit makes durable (`disk`).

use std::collections::{BTreeMap, HashMap};
use std::ops::AddAssign;
use std::sync::Arc;

use bakeoff_core::workload::mix64;
use serde::{Deserialize, Serialize};

use super::disk::DurableNode;
use super::{Image, Inode, Node, ROOT};
use crate::content::{BLOCK, SECTOR, zeros};

/// Selects the fate of blocks and names that were not synced, in a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnsyncedFate {
    /// All are lost.
    Lost,
    /// A part that follows from the seed had reached the disk: a prefix of the names, and blocks in any order.
    PartlyKept,
}

/// Counts what a power cut dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutLosses {
    /// Unsynced bytes that are gone.
    pub bytes: u64,
    /// Files that lost bytes.
    pub files: u64,
    /// Changes of names and sizes that are gone: creations, renames, deletions, truncations.
    pub names: u64,
    /// Syncs of files and directories since the start or the last cut.
    pub syncs: u64,
}

impl AddAssign for CutLosses {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.files += other.files;
        self.names += other.names;
        self.syncs += other.syncs;
    }
}

/// Seeded choices.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// Returns a number below `limit`, which is at least 1.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mix64(self.0) % limit.max(1)
    }
}

impl Image {
    /// Cuts the power: the live state becomes the durable one, with what the seed keeps besides.
    pub(crate) fn cut(&mut self, seed: u64, unsynced: UnsyncedFate) -> CutLosses {
        let mut dice = Dice(seed);
        let pending = self.disk.pending();
        let kept = match unsynced {
            UnsyncedFate::Lost => 0,
            UnsyncedFate::PartlyKept => dice.below(pending + 1),
        };
        let mut dropped =
            CutLosses { names: pending - kept, syncs: self.syncs, ..CutLosses::default() };
        self.commit(self.disk.committed() + kept);
        self.disk.drop_pending();
        let upto = self.disk.committed();

        let mut live = std::mem::take(&mut self.inodes);
        let mut numbers: Vec<u64> = live.keys().copied().collect();
        numbers.sort_unstable();
        for number in &numbers {
            let Some(Inode { node: Node::File { content, dirty, .. }, data_synced_at, .. }) =
                live.get(number)
            else {
                continue;
            };
            let Some(durable) = self.disk.content_mut(*number) else {
                let lost: u64 = dirty.keys().map(|&block| content.bytes_in(block)).sum();
                dropped.bytes += lost;
                dropped.files += u64::from(lost > 0);
                continue;
            };
            let mut kept = Vec::new();
            let mut lost = 0;
            for (&block, &written_at) in dirty {
                // Only a write in place needs no transaction of its own.
                let in_place = *data_synced_at <= upto && durable.blocks.contains_key(&block);
                let may_be_there = in_place || written_at <= upto;
                match unsynced == UnsyncedFate::PartlyKept && may_be_there && dice.below(2) == 0 {
                    true => kept.push(block),
                    false => lost += content.bytes_in(block),
                }
            }
            if let Some((&last, whole)) = kept.split_last() {
                for &block in whole {
                    durable.blocks.insert(block, Arc::clone(&content.blocks[&block]));
                }
                let sectors = 1 + dice.below((BLOCK / SECTOR) as u64) as usize;
                let torn = durable.blocks.entry(last).or_insert_with(zeros);
                let written = ..sectors * SECTOR;
                Arc::make_mut(torn)[written].copy_from_slice(&content.blocks[&last][written]);
                let end = (last + 1) * BLOCK as u64;
                durable.size = durable.size.max(end.min(content.size));
            }
            dropped.bytes += lost;
            dropped.files += u64::from(lost > 0);
        }
        self.revive(&mut live);
        dropped
    }

    /// Rebuilds the live state from the durable one. `before`: the live state so far, for links and attributes.
    fn revive(&mut self, before: &mut HashMap<u64, Inode>) {
        self.syncs = 0;
        self.blocks = 0;
        let mut parents = HashMap::from([(ROOT, ROOT)]);
        for (parent, durable) in self.disk.files() {
            if let DurableNode::Directory(entries) = &durable.node {
                parents.extend(entries.values().map(|&inode| (inode, parent)));
            }
        }
        for (number, durable) in self.disk.files() {
            let Some(Inode { attributes, node, .. }) = before.remove(&number) else { continue };
            let node = match &durable.node {
                DurableNode::File(content) => {
                    self.blocks += content.blocks.len() as u64;
                    let content = content.clone();
                    Node::File { content, dirty: BTreeMap::new(), replaced: false }
                }
                DurableNode::Directory(entries) => {
                    let parent = parents.get(&number).copied().unwrap_or(ROOT);
                    Node::Directory { entries: entries.clone(), parent }
                }
                DurableNode::Other => node,
            };
            let links = durable.links;
            let inode = Inode { links, ..Inode::new(attributes, node, self.disk.committed()) };
            self.inodes.insert(number, inode);
        }
    }
}
