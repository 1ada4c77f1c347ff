//! What a system is made of, described: its own nodes and those of its parts, in the order in which
//! they are started.
//!
//! What stands behind a system is started before it, what stands in front of it after it. All of
//! it is described before anything is started, ports and passwords among it, so that each member
//! can be told of those before it.
//!
//! Not here: starting it (`cluster`), what each kind needs (`systems`).

use std::path::Path;

use bakeoff_core::study::{self, Stands};
use bakeoff_core::workload::mix64;
use bakeoff_host::HostError;
use bakeoff_host::ports::Allocator;
use bakeoff_install::Installed;

use crate::systems::{Access, Asked, Description, Neighbour, System};

/// A system or one of its parts, and the program that it is.
pub(crate) struct Ingredient<'a> {
    /// `storage`; [`crate::systems::WHOLE`] for the system itself.
    pub(crate) role: &'a str,
    /// Where it stands; `None` for the system itself.
    pub(crate) stands: Option<Stands>,
    pub(crate) asked: &'a study::System,
    pub(crate) system: &'static dyn System,
    /// Its program; `None` for what is part of bakeoff.
    pub(crate) program: Option<Installed>,
}

/// The system itself or one of its parts, described.
pub(crate) struct Member<'a> {
    pub(crate) of: &'a Ingredient<'a>,
    pub(crate) description: Description,
    /// How its nodes are reached once they run.
    pub(crate) nodes: Vec<Access>,
}

impl Member<'_> {
    fn neighbour(&self) -> Neighbour {
        let Ingredient { role, system, .. } = *self.of;
        Neighbour { role: role.to_owned(), system, nodes: self.nodes.clone() }
    }
}

/// Describes all that a system is made of, with data below `dir`, in the order of the ingredients.
/// `seed` is what the order of faults follows from, where a system has any.
pub(crate) fn compose<'a>(
    ingredients: &'a [Ingredient<'a>],
    dir: &Path,
    seed: u64,
    ports: &mut Allocator,
) -> Result<Vec<Member<'a>>, HostError> {
    let mut members: Vec<Member<'a>> = Vec::new();
    let whole = ingredients.iter().find(|of| of.stands.is_none());
    for of in ingredients {
        let neighbours = neighbours(&members);
        let program = of.program.as_ref();
        let (system, role) = (of.asked, of.role);
        let whole = whole.map_or(system, |whole| whole.asked);
        let asked = Asked { system, role, whole, program, dir, seed, neighbours: &neighbours };
        let mut description = of.system.describe(&asked, ports)?;
        description.nodes.iter_mut().for_each(|node| node.env.push(padding(seed)));
        let nodes = description.accesses();
        members.push(Member { of, description, nodes });
    }
    Ok(members)
}

/// The name of the variable that lengthens a server's environment.
const PADDING: &str = "BAKEOFF_PADDING";
/// Its value is shorter than this, in bytes.
const PADDING_MAX: u64 = 4096;

/// Returns a variable of a length that follows from the trial's seed, so that it is the same for all
/// systems of a round and another one in the next.
///
/// The length of the environment moves a program's stack, and with it what shares a cache line: it
/// alone was seen to change run times by up to a tenth (Mytkowicz, Diwan, Hauswirth and Sweeney,
/// Producing Wrong Data Without Doing Anything Obviously Wrong, ASPLOS 2009). Drawn anew each round it
/// is scatter, and no bias.
fn padding(seed: u64) -> (String, String) {
    let length = mix64(seed) % PADDING_MAX;
    (PADDING.to_owned(), "x".repeat(length as usize))
}

/// What members need to know of each other.
pub(crate) fn neighbours(members: &[Member<'_>]) -> Vec<Neighbour> {
    members.iter().map(Member::neighbour).collect()
}

/// In which order a part is started: what stands behind the system first.
pub(crate) fn order(stands: Option<Stands>) -> u8 {
    match stands {
        Some(Stands::Behind) => 0,
        None => 1,
        Some(Stands::InFront) => 2,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn pads_environments_by_another_length_each_round() {
        let lengths: BTreeSet<usize> = (0..20).map(|seed| padding(seed).1.len()).collect();
        assert!(lengths.len() > 15 && lengths.iter().all(|&length| length < 4096), "{lengths:?}");
        assert_eq!(padding(7), padding(7), "the systems of a round have the same");
    }
}
