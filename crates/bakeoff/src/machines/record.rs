//! What a trial's record says of the machines of its run.
//!
//! Not here: their samples (`watch`), what is judged by them (`trial::verdicts`).

use bakeoff_core::record::{GeneratorPart, MachineTrial};

use super::Machines;

/// Notes each generator's parts, stage by stage, with the machine that it is.
pub(crate) fn note_parts(
    each: &mut [MachineTrial],
    machines: Option<&Machines>,
    stages: Vec<Vec<GeneratorPart>>,
) {
    let Some(machines) = machines else { return };
    let places = machines.places.generators();
    for parts in stages {
        for (&place, part) in places.iter().zip(parts) {
            if let Some(machine) = each.get_mut(place) {
                machine.generated.push(part);
            }
        }
    }
}
