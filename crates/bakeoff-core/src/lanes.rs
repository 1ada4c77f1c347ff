//! Deals clients and operations of a load to threads and nodes.
//!
//! An operation's number decides its node before a free client is chosen. Otherwise due operations would go to any
//! free client, and a hanging node would get few of them. Clients are dealt to threads node by node, so that each
//! thread has clients of each node if there are enough. The number of threads then does not change how a node's
//! behaviour shows.
//!
//! Not here: due times (`schedule`), sending.

use std::sync::Arc;

use crate::schedule::Turn;

/// Holds the operations that one thread sends to one node, and the clients that send them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lane {
    /// First of the node's places in the ring.
    pub place: usize,
    /// Operations of the lane.
    pub turn: Turn,
    /// Clients by number, each with the place that it connects to; at least one.
    pub clients: Vec<(u32, usize)>,
}

/// Deals clients and operations to threads, and returns the lanes of each thread. `nodes` maps each place in the ring
/// to its node. Clients take places in turn.
///
/// If a node gets no client because there are fewer clients than places, it gets no operations, and the ring ends at
/// the number of clients. Each of up to `clients` threads has a client.
pub fn deal(nodes: &[usize], clients: u32, threads: u32) -> Vec<Vec<Lane>> {
    let served = &nodes[..nodes.len().min(clients as usize)];
    let all = u32::try_from(nodes.len()).unwrap_or(u32::MAX).max(1);
    let ring = match nodes.iter().all(|node| served.contains(node)) {
        true => all,
        false => all.min(clients).max(1),
    };
    let threads = threads.clamp(1, clients.max(1));
    let mut dealt = vec![Vec::new(); threads as usize];
    let mut rank = 0;
    let mut known = Vec::new();
    for &node in nodes.iter().take(ring as usize) {
        if known.contains(&node) {
            continue;
        }
        known.push(node);
        let places: Arc<[u32]> =
            (0..ring).filter(|&place| nodes.get(place as usize) == Some(&node)).collect();
        let of_node = (0..clients).filter(|client| places.binary_search(&(client % ring)).is_ok());
        let mut lanes: Vec<(usize, Lane)> = Vec::new();
        for client in of_node {
            let thread = (rank % threads) as usize;
            rank += 1;
            let at = lanes.iter().position(|(of, _)| *of == thread).unwrap_or_else(|| {
                let index = lanes.len() as u32;
                let turn = Turn { places: places.clone(), ring, index, of: 0 };
                let place = places[0] as usize;
                lanes.push((thread, Lane { place, turn, clients: Vec::new() }));
                lanes.len() - 1
            });
            lanes[at].1.clients.push((client, (client % ring) as usize));
        }
        let of = lanes.len() as u32;
        for (thread, mut lane) in lanes {
            lane.turn.of = of;
            dealt[thread].push(lane);
        }
    }
    debug_assert_eq!(
        dealt.iter().flatten().map(|lane| lane.clients.len()).sum::<usize>(),
        clients as usize,
        "each client has one lane"
    );
    dealt
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::schedule::{LoadShare, OpenSchedule, RateProfile, Spacing, counted};

    #[test]
    fn each_thread_has_clients_of_each_node_if_there_are_enough() {
        for threads in [1, 2, 3, 8] {
            let dealt = deal(&[0, 1, 2], 100, threads);
            assert_eq!(dealt.len(), threads as usize);
            for lanes in &dealt {
                let nodes: Vec<usize> = lanes.iter().map(|lane| lane.place).collect();
                assert_eq!(nodes, [0, 1, 2], "{threads} threads");
            }
        }
        // With one client per node, each node belongs to one thread, and no thread has all.
        let dealt = deal(&[0, 1, 2], 3, 2);
        let clients: Vec<usize> =
            dealt.iter().map(|lanes| lanes.iter().map(|lane| lane.clients.len()).sum()).collect();
        assert_eq!(clients, [2, 1]);
        assert!(dealt.iter().flatten().all(|lane| lane.turn.of == 1));
    }

    #[test]
    fn clients_and_operations_of_one_node_go_to_threads_in_turn() {
        let dealt = deal(&[0], 7, 3);
        for (index, lanes) in (0..).zip(&dealt) {
            let [lane] = &lanes[..] else { panic!("one node, one lane: {lanes:?}") };
            let clients: Vec<u32> = lane.clients.iter().map(|&(client, _)| client).collect();
            assert_eq!(clients, (index..7).step_by(3).collect::<Vec<_>>());
            // Same as a share of the whole load, which lanes replaced.
            let share = Turn::of_share(LoadShare { index, of: 3 });
            for spacing in [Spacing::Constant, Spacing::Poisson] {
                let pace = RateProfile::Constant { rate: 700.0 };
                let schedule = |turn| {
                    let mut schedule = OpenSchedule::paced(&pace, spacing, turn, 5);
                    (0..100).map(move |_| schedule.next_due()).collect::<Vec<_>>()
                };
                assert_eq!(schedule(lane.turn.clone()), schedule(share.clone()));
            }
        }
    }

    #[test]
    fn nodes_without_a_client_get_no_operations() {
        let dealt = deal(&[0, 1, 2, 3, 4], 2, 8);
        let lanes: Vec<&Lane> = dealt.iter().flatten().collect();
        assert_eq!(lanes.iter().map(|lane| lane.place).collect::<Vec<_>>(), [0, 1]);
        assert!(lanes.iter().all(|lane| lane.turn.ring == 2));
    }

    #[test]
    fn node_with_more_places_gets_more_operations() {
        // The first node gets three of four, and any of its clients may send them.
        let dealt = deal(&[0, 0, 1, 0], 8, 1);
        let [first, second] = &dealt[0][..] else { panic!("{dealt:?}") };
        assert_eq!((first.clients.len(), second.clients.len()), (6, 2));
        let dues = |lane: &Lane, count: usize| {
            let pace = RateProfile::Constant { rate: 1.0 };
            let mut schedule = OpenSchedule::paced(&pace, Spacing::Constant, lane.turn.clone(), 1);
            (0..count).map(|_| schedule.next_due().as_secs()).collect::<Vec<_>>()
        };
        assert_eq!(dues(first, 6), [0, 1, 3, 4, 5, 7]);
        assert_eq!(dues(second, 3), [2, 6, 10]);
    }

    #[test]
    fn operations_keep_their_shares_with_fewer_clients_than_places() {
        // The first node gets three of four, although two clients take the ring's first two places.
        let dealt = deal(&[0, 1, 0, 0], 2, 1);
        let places: Vec<(usize, &[u32], u32)> = dealt[0]
            .iter()
            .map(|lane| (lane.clients.len(), &*lane.turn.places, lane.turn.ring))
            .collect();
        assert_eq!(places, [(1, &[0, 2, 3][..], 4), (1, &[1][..], 4)]);
    }

    fn nodes() -> impl Strategy<Value = Vec<usize>> {
        prop_oneof![
            (1..9_usize).prop_map(|count| (0..count).collect()),
            prop::collection::vec(0..3_usize, 1..9),
        ]
    }

    const END: Duration = Duration::from_secs(2);

    fn due_until_end(pace: &RateProfile, spacing: Spacing, turn: &Turn) -> Vec<Duration> {
        let mut schedule = OpenSchedule::paced(pace, spacing, turn.clone(), 7);
        std::iter::repeat_with(|| schedule.next_due()).take_while(|&due| due < END).collect()
    }

    proptest! {
        #[test]
        fn every_client_and_every_operation_is_dealt_once(
            nodes in nodes(), clients in 1..40_u32, threads in 1..10_u32, rate in 1.0..900.0_f64,
        ) {
            let dealt = deal(&nodes, clients, threads);
            let lanes = || dealt.iter().flatten();
            let mut numbers: Vec<u32> =
                lanes().flat_map(|lane| lane.clients.iter().map(|&(client, _)| client)).collect();
            numbers.sort_unstable();
            prop_assert_eq!(numbers, (0..clients).collect::<Vec<_>>());
            let per_thread = dealt.iter().map(|of| of.iter().map(|lane| lane.clients.len()).sum());
            let per_thread: Vec<usize> = per_thread.collect();
            let (most, least) = (per_thread.iter().max(), per_thread.iter().min());
            prop_assert!(most.unwrap() - least.unwrap() <= 1, "{:?}", per_thread);
            let pace = RateProfile::Constant { rate };
            let mut all: Vec<Duration> =
                lanes().flat_map(|lane| due_until_end(&pace, Spacing::Constant, &lane.turn)).collect();
            all.sort_unstable();
            let whole = Turn::of_share(LoadShare { index: 0, of: 1 });
            prop_assert_eq!(all, due_until_end(&pace, Spacing::Constant, &whole));
        }

        #[test]
        fn count_ends_with_the_last_due_operation_of_all_lanes(
            nodes in nodes(), clients in 1..40_u32, threads in 1..10_u32, rate in 1.0..900.0_f64,
            from in 0.0..1.0_f64, count in 0..500_u64, poisson in any::<bool>(),
        ) {
            let spacing = if poisson { Spacing::Poisson } else { Spacing::Constant };
            let pace = RateProfile::Constant { rate };
            let from = Duration::from_secs_f64(from);
            let turns: Vec<Turn> =
                deal(&nodes, clients, threads).into_iter().flatten().map(|lane| lane.turn).collect();
            let counts = counted(&pace, spacing, &turns, 7, from, count);
            prop_assert_eq!(counts.iter().sum::<u64>(), count);
            // No excluded operation is due before an included one.
            let (mut last_in, mut first_out) = (Duration::ZERO, Duration::MAX);
            for (turn, &count) in turns.iter().zip(&counts) {
                let mut schedule = OpenSchedule::paced(&pace, spacing, turn.clone(), 7);
                let mut dues =
                    std::iter::repeat_with(|| schedule.next_due()).skip_while(|&due| due < from);
                if count > 0 {
                    last_in = last_in.max(dues.nth(count as usize - 1).unwrap());
                }
                first_out = first_out.min(dues.next().unwrap());
            }
            prop_assert!(last_in < first_out, "{:?} and {:?}", last_in, first_out);
        }
    }
}
