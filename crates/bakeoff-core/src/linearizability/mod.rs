//! Judges whether the history of one key is linearizable: whether some order of its operations explains every answer.
//!
//! Every write has a value of its own, so a read names the write that it saw. A write and its reads are then a block,
//! since no other write may come between them. Blocks can be put in order unless two of them must each precede the
//! other (Gibbons and Korach, Testing Shared Memories, 1997). That is decided by four times of a block and sorting:
//! O(n log n). A compare-and-set joins the block of the value that it expected to its own.
//!
//! - A write of unknown outcome is left out if no read saw it. If a read saw it, its end is open.
//! - A failed write must not be read.
//! - One operation precedes another if it ended strictly before the other started. One clock measures both.
//!
//! `history` judges all keys of a load with it, and `judged_history` holds the verdict.
//!
//! If several writes have the same value, as in histories of other tools, `search` decides instead.
//!
//! Not here: recording histories (the engine), which delete a read of a missing key saw (`deletes`), histories in files
//! (`import`).

mod deletes;
pub mod history;
pub mod import;
pub mod judged_history;
pub mod recorded_operation;
mod search;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One operation on the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyOperation {
    /// Time of the call, in nanoseconds of one clock.
    pub start: u64,
    /// End of the operation.
    pub end: KeyEnd,
    /// Its effect or answer.
    pub action: KeyAction,
}

/// The end of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyEnd {
    /// It succeeded; its answer came at this time.
    Done(u64),
    /// It was refused at this time, and changed nothing.
    Failed(u64),
    /// No answer came: it may have happened.
    Unknown,
}

/// The effect or the answer of an operation. A value is a number that no other write of the key has; `None` is the key's first state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyAction {
    /// Wrote this value.
    Write(u64),
    /// Read this value.
    Read(Option<u64>),
    /// Replaced `expected` by `value`. A failed one with a mismatch is a [`KeyAction::Read`] of the value it met.
    CompareAndSet {
        /// Value that it met.
        expected: Option<u64>,
        /// Value that it wrote.
        value: u64,
    },
}

/// The verdict about a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Linearizability {
    /// Some order explains every answer.
    Linearizable,
    /// No order does.
    Violated(LinearizabilityViolation),
    /// The history cannot be judged, for this reason.
    Undecided(&'static str),
}

/// Why no order explains a history, and the operations that show it, by their index in the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinearizabilityViolation {
    /// Kind of violation.
    pub kind: ViolationKind,
    /// Operations that show it, in the order of their starts: without any of them, the others are linearizable.
    pub shown_by: Vec<usize>,
}

/// Kinds of violations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ViolationKind {
    /// A read saw a value without a write.
    NeverWritten,
    /// A read saw the value of a failed write.
    DirtyRead,
    /// A read saw a value before its write began.
    ReadBeforeWrite,
    /// Two compare-and-sets met the same value.
    LostUpdate,
    /// A value was met after the value that replaced it.
    AfterReplaced,
    /// Two writes must each precede the other.
    Disordered,
    /// No order explains every answer, in a history whose writes share values.
    NoOrder,
}

impl ViolationKind {
    /// Returns the violation in words.
    pub fn text(self) -> &'static str {
        match self {
            Self::NeverWritten => "a read returned a value that nothing wrote",
            Self::DirtyRead => "a read returned a write that the system had refused",
            Self::ReadBeforeWrite => "a read returned a value before its write began",
            Self::LostUpdate => "two compare-and-sets replaced the same value",
            Self::AfterReplaced => "a value was met after the one that replaced it",
            Self::Disordered => "two writes must each precede the other",
            Self::NoOrder => "no order of these operations explains every answer",
        }
    }
}

/// The times of a block that bound its place, each with the operation that has it. Times are one later than in the
/// history, because the first state precedes all.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    first_end: (u64, usize),
    last_start: (u64, usize),
}

impl Bounds {
    fn new(start: u64, end: u64, index: usize) -> Self {
        Self {
            first_end: (end.saturating_add(1), index),
            last_start: (start.saturating_add(1), index),
        }
    }

    fn with(self, other: Self) -> Self {
        Self {
            first_end: self.first_end.min(other.first_end),
            last_start: if other.last_start.0 > self.last_start.0 {
                other.last_start
            } else {
                self.last_start
            },
        }
    }

    /// Returns true if this block must precede the other.
    fn precedes(&self, other: &Self) -> bool {
        self.first_end.0 < other.last_start.0
    }

    /// Returns true if the block must be in place over a stretch of time, and not only at one moment of it.
    fn is_forward(&self) -> bool {
        self.precedes(self)
    }
}

/// A value's write and reads.
#[derive(Debug, Clone, Copy)]
struct Block {
    bounds: Bounds,
    /// The write; `None` for the first state.
    write: Option<usize>,
    /// Value that the write replaced by compare-and-set.
    after: Option<Option<u64>>,
    is_read: bool,
}

/// Blocks by value, sorted. Values are numbers of writes with few gaps, so most are found at their own number.
struct Blocks(Vec<(Option<u64>, Block)>);

impl Blocks {
    fn place(&self, value: Option<u64>) -> Option<usize> {
        let guess = value.unwrap_or(0) as usize;
        match self.0.get(guess) {
            Some(found) if found.0 == value => Some(guess),
            _ => self.0.binary_search_by_key(&value, |one| one.0).ok(),
        }
    }

    fn get(&self, value: Option<u64>) -> Option<&Block> {
        Some(&self.0[self.place(value)?].1)
    }

    fn get_mut(&mut self, value: Option<u64>) -> Option<&mut Block> {
        let place = self.place(value)?;
        Some(&mut self.0[place].1)
    }

    fn iter(&self) -> impl Iterator<Item = (Option<u64>, &Block)> {
        self.0.iter().map(|(value, block)| (*value, block))
    }
}

/// Judges the history of one key. The order of the operations is free.
pub fn judge(history: &[KeyOperation]) -> Linearizability {
    match judged(history) {
        Linearizability::Violated(violation) => {
            Linearizability::Violated(match has_repeated_values(history) {
                true => search::smallest(history, violation),
                false => smallest(history, violation),
            })
        }
        verdict => verdict,
    }
}

/// Adds the writes that the operations of a violation met, and removes what the violation does not need.
fn smallest(
    history: &[KeyOperation],
    LinearizabilityViolation { kind, mut shown_by }: LinearizabilityViolation,
) -> LinearizabilityViolation {
    let written = |one: &KeyOperation| match one.action {
        KeyAction::Write(value) | KeyAction::CompareAndSet { value, .. } => Some(value),
        KeyAction::Read(_) => None,
    };
    let met = |one: &KeyOperation| match one.action {
        KeyAction::Read(value) => value,
        KeyAction::CompareAndSet { expected, .. } => expected,
        KeyAction::Write(_) => None,
    };
    let mut next = 0;
    while let Some(one) = shown_by.get(next).map(|&index| &history[index]) {
        next += 1;
        let (own, met_by_it) = (written(one).filter(|_| one.end == KeyEnd::Unknown), met(one));
        // The write that it met, and the evidence that an unknown write happened.
        let is_needed = |other: &KeyOperation| {
            (met_by_it.is_some() && written(other) == met_by_it)
                || (own.is_some() && met(other) == own)
        };
        let needed = (0..history.len()).filter(|&index| is_needed(&history[index]));
        let new: Vec<usize> = needed.filter(|index| !shown_by.contains(index)).collect();
        shown_by.extend(new);
    }
    shown_by.sort_unstable_by_key(|&index| (history[index].start, index));
    // The rest has to show the same, and not that a removed write is missing.
    let is_superfluous = |shown_by: &[usize], index: usize| {
        let rest = shown_by.iter().filter(|&&other| other != index);
        let rest: Vec<KeyOperation> = rest.map(|&index| history[index]).collect();
        matches!(judged(&rest), Linearizability::Violated(found) if found.kind == kind)
    };
    while let Some(place) = shown_by.iter().position(|&index| is_superfluous(&shown_by, index)) {
        shown_by.remove(place);
    }
    violation(history, kind, &shown_by)
}

/// Returns true if two writes that may have happened have the same value.
fn has_repeated_values(history: &[KeyOperation]) -> bool {
    let mut values: Vec<u64> = history
        .iter()
        .filter(|one| !matches!(one.end, KeyEnd::Failed(_)))
        .filter_map(|one| match one.action {
            KeyAction::Write(value) | KeyAction::CompareAndSet { value, .. } => Some(value),
            KeyAction::Read(_) => None,
        })
        .collect();
    values.sort_unstable();
    values.windows(2).any(|pair| pair[0] == pair[1])
}

fn judged(history: &[KeyOperation]) -> Linearizability {
    let blocks = match blocks(history) {
        Ok(blocks) => blocks,
        Err(verdict) => return verdict,
    };
    let chains = match chains(history, &blocks) {
        Ok(chains) => chains,
        Err(violation) => return Linearizability::Violated(violation),
    };
    match disordered(&chains) {
        None => Linearizability::Linearizable,
        Some((one, other)) => {
            let ends = [one.first_end.1, one.last_start.1, other.first_end.1, other.last_start.1];
            Linearizability::Violated(violation(history, ViolationKind::Disordered, &ends))
        }
    }
}

fn violation(
    history: &[KeyOperation],
    kind: ViolationKind,
    operations: &[usize],
) -> LinearizabilityViolation {
    // The first state has no operation.
    let mut shown_by: Vec<usize> =
        operations.iter().copied().filter(|&index| index < history.len()).collect();
    shown_by.sort_unstable_by_key(|&index| (history[index].start, index));
    shown_by.dedup();
    LinearizabilityViolation { kind, shown_by }
}

/// Groups the operations by the value that they wrote or read.
fn blocks(history: &[KeyOperation]) -> Result<Blocks, Linearizability> {
    let violated = |kind, operations: &[usize]| {
        Err(Linearizability::Violated(violation(history, kind, operations)))
    };
    let no_operation = history.len();
    let initial = Bounds { first_end: (0, no_operation), last_start: (0, no_operation) };
    let initial = Block { bounds: initial, write: None, after: None, is_read: false };
    let mut blocks = vec![(None, initial)];
    let mut failed: BTreeMap<u64, usize> = BTreeMap::new();
    for (index, one) in history.iter().enumerate() {
        let (value, after) = match one.action {
            KeyAction::Write(value) => (value, None),
            KeyAction::CompareAndSet { expected, value } => (value, Some(expected)),
            KeyAction::Read(_) => continue,
        };
        let end = match one.end {
            KeyEnd::Done(end) => end,
            KeyEnd::Unknown => u64::MAX,
            KeyEnd::Failed(_) => {
                failed.insert(value, index);
                continue;
            }
        };
        let bounds = Bounds::new(one.start, end, index);
        let block = Block { bounds, write: Some(index), after, is_read: false };
        blocks.push((Some(value), block));
    }
    blocks.sort_by_key(|one| one.0);
    if blocks.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return Err(search::judged(history));
    }
    let mut blocks = Blocks(blocks);
    for (index, one) in history.iter().enumerate() {
        let (KeyAction::Read(value), KeyEnd::Done(end)) = (one.action, one.end) else { continue };
        let Some(block) = blocks.get_mut(value) else {
            return match value.and_then(|value| failed.get(&value)) {
                Some(&write) => violated(ViolationKind::DirtyRead, &[write, index]),
                None => violated(ViolationKind::NeverWritten, &[index]),
            };
        };
        if let Some(write) = block.write.filter(|&write| end < history[write].start) {
            return violated(ViolationKind::ReadBeforeWrite, &[write, index]);
        }
        let read = Bounds::new(one.start, end, index);
        block.bounds = block.bounds.with(read);
        block.is_read = true;
    }
    // A compare-and-set reads what it replaces. Unknown ones count if their own value was met, in turn.
    let happened = |block: &Block| {
        let known = block.write.is_none_or(|write| history[write].end != KeyEnd::Unknown);
        known || block.is_read
    };
    let meets = |block: &Block| Some((block.after?, block.write?));
    let mut met: Vec<(Option<u64>, usize)> =
        blocks.iter().filter_map(|(_, block)| meets(block).filter(|_| happened(block))).collect();
    while let Some((value, by)) = met.pop() {
        let Some(block) = blocks.get_mut(value) else {
            return match value.and_then(|value| failed.get(&value)) {
                Some(&write) => violated(ViolationKind::DirtyRead, &[write, by]),
                None => violated(ViolationKind::NeverWritten, &[by]),
            };
        };
        if !happened(block) {
            met.extend(meets(block));
        }
        block.is_read = true;
    }
    blocks.0.retain(|(_, block)| happened(block));
    Ok(blocks)
}

/// Joins blocks that compare-and-sets put one behind the other, and returns the bounds of each chain.
fn chains(
    history: &[KeyOperation],
    blocks: &Blocks,
) -> Result<Vec<Bounds>, LinearizabilityViolation> {
    let mut next: BTreeMap<Option<u64>, Option<u64>> = BTreeMap::new();
    for (value, block) in blocks.iter() {
        let Some(before) = block.after else { continue };
        if let Some(other) = next.insert(before, value) {
            let writes: Vec<usize> =
                [value, other].iter().filter_map(|&value| blocks.get(value)?.write).collect();
            return Err(violation(history, ViolationKind::LostUpdate, &writes));
        }
    }
    let mut chains = Vec::new();
    let mut joined = 0;
    for (value, block) in blocks.iter().filter(|(_, block)| block.after.is_none()) {
        let mut bounds = block.bounds;
        joined += 1;
        let mut last = value;
        while let Some((value, block)) =
            next.get(&last).and_then(|&value| Some((value, blocks.get(value)?)))
        {
            // All of the chain so far precedes this block.
            if block.bounds.precedes(&bounds) {
                let shown = [block.bounds.first_end.1, bounds.last_start.1];
                return Err(violation(history, ViolationKind::AfterReplaced, &shown));
            }
            bounds = bounds.with(block.bounds);
            joined += 1;
            last = value;
        }
        chains.push(bounds);
    }
    if joined < blocks.0.len() {
        // Compare-and-sets that met each other's values in a circle.
        let joins = blocks.iter().filter(|(_, block)| block.after.is_some());
        let writes: Vec<usize> = joins.filter_map(|(_, block)| block.write).collect();
        return Err(violation(history, ViolationKind::AfterReplaced, &writes));
    }
    Ok(chains)
}

/// Returns two chains that must each precede the other. `None` if the chains can be ordered.
fn disordered(chains: &[Bounds]) -> Option<(Bounds, Bounds)> {
    let mut forward: Vec<Bounds> = chains.iter().copied().filter(Bounds::is_forward).collect();
    forward.sort_unstable_by_key(|one| (one.first_end.0, one.last_start.0));
    if let Some(pair) = forward.windows(2).find(|pair| pair[1].precedes(&pair[0])) {
        return Some((pair[0], pair[1]));
    }
    // Stretches do not overlap now, so the last one that began before a moment ends last.
    chains.iter().filter(|one| !one.is_forward()).find_map(|one| {
        let before = forward.partition_point(|stretch| stretch.first_end.0 < one.last_start.0);
        let stretch = forward.get(before.checked_sub(1)?)?;
        one.precedes(stretch).then_some((*stretch, *one))
    })
}

#[cfg(test)]
mod tests;
