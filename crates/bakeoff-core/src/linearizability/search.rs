//! Judges histories in which several writes have the same value, by a search through orders.
//!
//! A read no longer names its write then, and blocks cannot be formed. The search puts any operation next that no other
//! one precedes, and remembers each set of placed operations with the register's value (Wing and Gong, 1993; Lowe,
//! 2017). It can take exponentially long, so it ends undecided once its memory is full.
//!
//! Not here: histories whose writes have values of their own (`linearizability`).

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{
    KeyAction, KeyEnd, KeyOperation, Linearizability, LinearizabilityViolation, ViolationKind,
};

/// Most bytes of remembered sets in one search.
const MEMORY_MAX: usize = 256 << 20;
/// Most bytes of remembered sets while the smallest violation is searched for.
const MEMORY_MAX_SMALLEST: usize = 64 << 20;
/// Estimated bytes of a remembered set besides its words.
const SET_BYTES: usize = 48;
/// Why a search ended without a verdict.
const FULL: &str = "the search for an order took too much memory";

/// A set of placed operations and the value after them: the first open place, the value, then words of bits.
type VisitedState = Box<[u64]>;

/// Judges a history by search. The order of its operations is free.
pub(super) fn judged(history: &[KeyOperation]) -> Linearizability {
    judged_within(history, &mut { MEMORY_MAX })
}

/// Judges a history with at most `memory` bytes, which it uses up.
fn judged_within(history: &[KeyOperation], memory: &mut usize) -> Linearizability {
    if let Some(violation) = unwritten(history) {
        return Linearizability::Violated(violation);
    }
    match Search::new(history).has_order(memory) {
        Some(true) => Linearizability::Linearizable,
        Some(false) => Linearizability::Violated(LinearizabilityViolation {
            kind: ViolationKind::NoOrder,
            shown_by: (0..history.len()).collect(),
        }),
        None => Linearizability::Undecided(FULL),
    }
}

/// Returns the value that an operation met, if it certainly did: `Some(None)` is the first state.
fn met(one: &KeyOperation) -> Option<Option<u64>> {
    match (one.action, one.end) {
        (KeyAction::Read(value), KeyEnd::Done(_)) => Some(value),
        (KeyAction::CompareAndSet { expected, .. }, KeyEnd::Done(_)) => Some(expected),
        _ => None,
    }
}

/// Returns the value that an operation wrote or may have written.
fn written(one: &KeyOperation) -> Option<u64> {
    match one.action {
        KeyAction::Write(value) | KeyAction::CompareAndSet { value, .. } => Some(value),
        KeyAction::Read(_) => None,
    }
}

/// Finds a value that was met without a write that explains it.
fn unwritten(history: &[KeyOperation]) -> Option<LinearizabilityViolation> {
    let mut first: BTreeMap<u64, usize> = BTreeMap::new();
    let mut refused: BTreeMap<u64, usize> = BTreeMap::new();
    for (index, one) in history.iter().enumerate() {
        let Some(value) = written(one) else { continue };
        let of_value = match one.end {
            KeyEnd::Failed(_) => &mut refused,
            _ => &mut first,
        };
        let known = of_value.entry(value).or_insert(index);
        if one.start < history[*known].start {
            *known = index;
        }
    }
    history.iter().enumerate().find_map(|(index, one)| {
        let (Some(Some(value)), KeyEnd::Done(end)) = (met(one), one.end) else { return None };
        let (kind, write) = match (first.get(&value), refused.get(&value)) {
            (Some(&write), _) if history[write].start > end => {
                (ViolationKind::ReadBeforeWrite, Some(write))
            }
            (Some(_), _) => return None,
            (None, Some(&write)) => (ViolationKind::DirtyRead, Some(write)),
            (None, None) => (ViolationKind::NeverWritten, None),
        };
        let mut shown_by: Vec<usize> = write.into_iter().chain([index]).collect();
        shown_by.sort_unstable_by_key(|&index| (history[index].start, index));
        Some(LinearizabilityViolation { kind, shown_by })
    })
}

/// Reduces a violation to few operations. An operation that met a value stays with all writes that may explain it.
pub(super) fn smallest(
    history: &[KeyOperation],
    violation: LinearizabilityViolation,
) -> LinearizabilityViolation {
    if violation.kind != ViolationKind::NoOrder {
        return violation;
    }
    let memory = &mut { MEMORY_MAX_SMALLEST };
    let mut kept: Vec<usize> = violation.shown_by;
    kept.retain(|&index| match history[index].end {
        KeyEnd::Done(_) => true,
        KeyEnd::Unknown => written(&history[index]).is_some(),
        KeyEnd::Failed(_) => false,
    });
    kept.sort_unstable_by_key(|&index| (history[index].start, index));
    let sources = Sources::new(history, &kept);
    let mut chunk = kept.len().div_ceil(2);
    while chunk > 0 {
        let mut is_smaller = false;
        // Later operations first: a violation often ends a history that was right until then.
        let mut end = kept.len();
        while end > 0 {
            let from = end.saturating_sub(chunk);
            let Some(fewer) = sources.without(&kept, from..end, memory) else { break };
            if fewer.len() < kept.len() {
                let chosen: Vec<KeyOperation> = fewer.iter().map(|&one| history[one]).collect();
                if Search::new(&chosen).has_order(memory) == Some(false) {
                    (kept, is_smaller) = (fewer, true);
                }
            }
            end = from.min(kept.len());
        }
        if chunk > 1 || !is_smaller {
            chunk /= 2;
        }
    }
    LinearizabilityViolation { kind: ViolationKind::NoOrder, shown_by: kept }
}

/// The writes that may explain what operations met.
///
/// A violation may leave out a write if it explains nothing that stays. In each order of the whole history, the rest is
/// then right without it.
struct Sources<'a> {
    history: &'a [KeyOperation],
    /// Writes of each value, by start.
    writes: HashMap<u64, Vec<usize>>,
    /// For each write, the time from which it is certainly replaced; `u64::MAX` for other operations.
    replaced: Vec<u64>,
}

impl<'a> Sources<'a> {
    fn new(history: &'a [KeyOperation], kept: &[usize]) -> Self {
        let mut writes: HashMap<u64, Vec<usize>> = HashMap::new();
        let mut certain: Vec<(u64, u64)> = Vec::new();
        for &index in kept {
            let Some(value) = written(&history[index]) else { continue };
            writes.entry(value).or_default().push(index);
            if let KeyEnd::Done(end) = history[index].end {
                certain.push((history[index].start, end));
            }
        }
        // From each start on, the earliest end of a write.
        certain.sort_unstable();
        let mut earliest = u64::MAX;
        for (_, end) in certain.iter_mut().rev() {
            earliest = earliest.min(*end);
            *end = earliest;
        }
        let replaced = history.iter().map(|one| match one.end {
            KeyEnd::Done(end) => {
                let later = certain.partition_point(|&(start, _)| start <= end);
                certain.get(later).map_or(u64::MAX, |&(_, end)| end)
            }
            _ => u64::MAX,
        });
        Self { history, writes, replaced: replaced.collect() }
    }

    /// Returns the operations without those at some places, except writes that may explain what the rest met. Counts
    /// its work as `memory`, and returns `None` if that is used up.
    fn without(
        &self,
        kept: &[usize],
        removed: std::ops::Range<usize>,
        memory: &mut usize,
    ) -> Option<Vec<usize>> {
        *memory = memory.checked_sub(kept.len())?;
        let mut out: HashSet<usize> = kept[removed.clone()].iter().copied().collect();
        let mut open: Vec<usize> =
            kept[..removed.start].iter().chain(&kept[removed.end..]).copied().collect();
        while let Some(one) = open.pop().map(|index| &self.history[index]) {
            let Some(of_value) = needed_value(one).and_then(|value| self.writes.get(&value)) else {
                continue;
            };
            *memory = memory.checked_sub(of_value.len())?;
            let until = match one.end {
                KeyEnd::Done(end) | KeyEnd::Failed(end) => end,
                KeyEnd::Unknown => u64::MAX,
            };
            let begun = of_value.partition_point(|&write| self.history[write].start <= until);
            for &write in &of_value[..begun] {
                if one.start <= self.replaced[write] && out.remove(&write) {
                    open.push(write);
                }
            }
            // A value without any write would look like one that nothing wrote.
            let is_written = of_value[..begun].iter().any(|write| !out.contains(write));
            if let (false, Some(&last)) = (is_written, of_value[..begun].last()) {
                out.remove(&last);
                open.push(last);
            }
        }
        Some(kept.iter().copied().filter(|index| !out.contains(index)).collect())
    }
}

/// An operation to place.
#[derive(Clone, Copy)]
struct Placeable {
    start: u64,
    /// `u64::MAX` for an unknown outcome.
    end: u64,
    action: KeyAction,
}

/// A search for an order.
struct Search {
    /// Operations that certainly happened, by start; then those of unknown outcome.
    operations: Vec<Placeable>,
    /// Number of operations that certainly happened.
    done: usize,
}

/// A call or return in the list of open events.
#[derive(Clone, Copy)]
struct Event {
    operation: usize,
    is_call: bool,
}

impl Search {
    fn new(history: &[KeyOperation]) -> Self {
        let with = |end: fn(&KeyOperation) -> Option<u64>| {
            let mut found: Vec<Placeable> = history
                .iter()
                .filter_map(|one| {
                    Some(Placeable { start: one.start, end: end(one)?, action: one.action })
                })
                .collect();
            found.sort_by_key(|one| one.start);
            found
        };
        let mut operations = with(|one| match one.end {
            KeyEnd::Done(end) => Some(end),
            _ => None,
        });
        let done = operations.len();
        // A write of unknown outcome matters only if its value was met.
        let met: HashSet<u64> = history.iter().filter_map(needed_value).collect();
        let unknown = with(|one| match (one.end, written(one)) {
            (KeyEnd::Unknown, Some(_)) => Some(u64::MAX),
            _ => None,
        });
        operations.extend(unknown.into_iter().filter(|one| match one.action {
            KeyAction::Write(value) | KeyAction::CompareAndSet { value, .. } => {
                met.contains(&value)
            }
            KeyAction::Read(_) => false,
        }));
        Self { operations, done }
    }

    /// Returns true if some order explains every answer; `None` if `memory` is used up before that is known.
    fn has_order(&self, memory: &mut usize) -> Option<bool> {
        let (events, mut next, mut previous, calls, returns) = self.events();
        let end = events.len() + 1;
        let mut placed = vec![0_u64; self.operations.len().div_ceil(64)];
        let mut remembered: HashSet<VisitedState> = HashSet::new();
        let mut stack: Vec<(usize, Option<u64>)> = Vec::new();
        let (mut state, mut left, mut low) = (None, self.done, 0);
        let mut at = next[0];
        while left > 0 {
            let call = (at != end).then(|| events[at - 1]).filter(|event| event.is_call);
            let Some(Event { operation, .. }) = call else {
                // An operation ended that could not be placed, so the last choice was wrong.
                let Some((undone, before)) = stack.pop() else { return Some(false) };
                state = before;
                placed[undone / 64] &= !(1 << (undone % 64));
                left += usize::from(undone < self.done);
                low = low.min(undone);
                for &event in [returns[undone], calls[undone]].iter().filter(|&&one| one != 0) {
                    next[previous[event]] = event;
                    previous[next[event]] = event;
                }
                at = next[calls[undone]];
                continue;
            };
            let after = match self.operations[operation].action {
                KeyAction::Write(value) => Some(Some(value)),
                KeyAction::Read(value) => (value == state).then_some(state),
                KeyAction::CompareAndSet { expected, value } => {
                    (expected == state).then_some(Some(value))
                }
            };
            if let Some(after) = after {
                placed[operation / 64] |= 1 << (operation % 64);
                let is_done = usize::from(operation < self.done);
                let mut first_open = low;
                while first_open < self.done && is_set(&placed, first_open) {
                    first_open += 1;
                }
                let set = self.remembered(&placed, first_open, left - is_done, after);
                let bytes = set.len() * 8 + SET_BYTES;
                if remembered.insert(set) {
                    *memory = memory.checked_sub(bytes)?;
                    stack.push((operation, state));
                    (state, low) = (after, first_open);
                    left -= is_done;
                    for &event in
                        [calls[operation], returns[operation]].iter().filter(|&&one| one != 0)
                    {
                        next[previous[event]] = next[event];
                        previous[next[event]] = previous[event];
                    }
                    at = next[0];
                    continue;
                }
                placed[operation / 64] &= !(1 << (operation % 64));
            }
            at = next[at];
        }
        Some(true)
    }

    /// Returns all calls and returns by time, as a linked list with a place 0 before and one behind them, and the
    /// places of each operation's call and return; 0 for none.
    #[expect(clippy::type_complexity, reason = "the five arrays of one list")]
    fn events(&self) -> (Vec<Event>, Vec<usize>, Vec<usize>, Vec<usize>, Vec<usize>) {
        let calls = (0..self.operations.len()).map(|operation| Event { operation, is_call: true });
        let returns = (0..self.done).map(|operation| Event { operation, is_call: false });
        let mut events: Vec<Event> = calls.chain(returns).collect();
        // One operation precedes another only if it ended strictly before.
        events.sort_by_key(|event| {
            let one = &self.operations[event.operation];
            if event.is_call { (one.start, 0) } else { (one.end, 1) }
        });
        let next = (1..=events.len() + 2).collect();
        let previous = (0..events.len() + 2).map(|place| place.saturating_sub(1)).collect();
        let mut places = [vec![0; self.operations.len()], vec![0; self.operations.len()]];
        for (place, event) in (1..).zip(&events) {
            places[usize::from(!event.is_call)][event.operation] = place;
        }
        let [calls, returns] = places;
        (events, next, previous, calls, returns)
    }

    /// Encodes a set of placed operations. Those before `first_open` are all in it, so only later ones are listed.
    fn remembered(
        &self,
        placed: &[u64],
        first_open: usize,
        left: usize,
        state: Option<u64>,
    ) -> VisitedState {
        let mut set = vec![first_open as u64, u64::from(state.is_some()), state.unwrap_or(0)];
        let mut beyond = self.done - left - first_open;
        let mut word = first_open / 64;
        while beyond > 0 {
            let from = first_open.max(word * 64);
            let until = self.done.min((word + 1) * 64);
            let mask = bits(from % 64, until - word * 64);
            let bits = placed[word] & mask;
            set.push(bits);
            beyond -= bits.count_ones() as usize;
            word += 1;
        }
        // The words of unknown outcomes come last, always the same number.
        let unknown = self.done..self.operations.len();
        if !unknown.is_empty() {
            for (word, placed) in placed.iter().enumerate().skip(self.done / 64) {
                let from = unknown.start.max(word * 64) - word * 64;
                let until = unknown.end.min((word + 1) * 64) - word * 64;
                set.push(placed & bits(from, until));
            }
        }
        set.into()
    }
}

/// Returns the value that an operation met, or may have met.
fn needed_value(one: &KeyOperation) -> Option<u64> {
    match (one.action, one.end) {
        (_, KeyEnd::Failed(_)) | (KeyAction::Write(_), _) => None,
        (KeyAction::Read(_), KeyEnd::Unknown) => None,
        (KeyAction::Read(value), _) => value,
        (KeyAction::CompareAndSet { expected, .. }, _) => expected,
    }
}

/// Returns a word with the bits from `from` up to but without `until`.
fn bits(from: usize, until: usize) -> u64 {
    let below = |bit: usize| if bit >= 64 { u64::MAX } else { (1 << bit) - 1 };
    below(until) & !below(from)
}

fn is_set(placed: &[u64], operation: usize) -> bool {
    placed[operation / 64] & (1 << (operation % 64)) != 0
}
