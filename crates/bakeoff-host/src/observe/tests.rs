//! Tests of [`super`].

use bakeoff_core::study;
use tempfile::TempDir;

use super::super::tests::{launch, sh, wait_for};
use super::*;

fn newest(sampler: &Sampler, node: &str, column: Column) -> f64 {
    let observer = lock(&sampler.observer);
    let found = observer.nodes.iter().find(|one| one.series.name == node).unwrap();
    let values = found.series.columns.get(&column);
    values.and_then(|all| all.iter().rfind(|one| !one.is_nan()).copied()).unwrap_or(-1.0)
}

#[test]
fn samples_without_a_column_are_filled_in() {
    let mut series = Series::default();
    let looks = [
        (0.0, Some(10.0), Some(5.0)),
        (1.0, None, None),
        (4.0, Some(50.0), Some(6.0)),
        (5.0, None, None),
    ];
    for (at, sent, data) in looks {
        push(&mut series, at, vec![(Column::Resident, at)]);
        sent.into_iter().for_each(|value| set(&mut series, Column::SocketSent, value));
        data.into_iter().for_each(|value| set(&mut series, Column::DataDirectory, value));
    }
    let settled = settle(series);
    assert_eq!(settled.columns[&Column::SocketSent], [10.0, 20.0, 50.0, 50.0]);
    assert_eq!(settled.columns[&Column::DataDirectory], [5.0, 5.0, 6.0, 6.0]);
    assert_eq!(settled.columns[&Column::Resident], [0.0, 1.0, 4.0, 5.0]);
}

#[test]
fn columns_missing_in_first_samples_are_filled_in() {
    let mut series = Series::default();
    // The complete sample gave way to a partial one close to it.
    push(&mut series, 0.0, vec![(Column::OpenFiles, f64::NAN), (Column::CpuWait, f64::NAN)]);
    push(&mut series, 1.0, vec![(Column::OpenFiles, 7.0)]);
    let settled = settle(series);
    assert_eq!(settled.columns[&Column::OpenFiles], [7.0, 7.0]);
    assert_eq!(settled.columns.get(&Column::CpuWait), None, "no look saw it");
}

#[test]
fn cpu_of_a_helper_that_somebody_else_started_counts() {
    let dir = TempDir::new().unwrap();
    let process = launch(sh(&dir, "while :; do :; done")).unwrap();
    let sampler = Sampler::start(dir.path(), INTERVAL_MIN, clock::now());
    let watched = process.watched().unwrap();
    let busy = || watched.family.pid.load(Ordering::Acquire);
    wait_for("the process", || busy() > 0);
    sampler.count_helper(busy());
    let observer = || lock(&sampler.observer);
    wait_for("its CPU time", || observer().helpers[1].cpu() > 0.04);
}

#[test]
fn cpu_of_a_node_and_its_child_is_kept_over_a_restart() {
    let dir = TempDir::new().unwrap();
    // The child uses CPU in its own session; then all is idle.
    let script = "setsid sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; sleep 60' & \
                  wait";
    let process = launch(sh(&dir, script)).unwrap();
    let mut sampler = Sampler::start(dir.path(), INTERVAL_MIN, clock::now());
    sampler.phase(PhaseName::Load);
    sampler.watch(process.watched());
    let newest = |column| newest(&sampler, "node-1", column);
    let cpu = || newest(Column::CpuUser) + newest(Column::CpuSystem);
    wait_for("cpu of the child", || cpu() > 0.04);
    assert!(newest(Column::Resident) > 100_000.0 && newest(Column::Processes) >= 2.0);
    assert!(newest(Column::OpenFiles) >= 3.0);
    process.kill9();
    wait_for("the end", || newest(Column::Processes) == 0.0);
    let before = cpu();
    assert!(before > 0.04);
    process.restart().unwrap();
    wait_for("cpu after the restart", || cpu() > before + 0.03);
    sampler.phase(PhaseName::Stopping);
    let observed = sampler.stop();

    let looks = observed.machine.at.len();
    let each = observed.cost / looks as u32;
    assert!(each < Duration::from_millis(20), "a look took {each:?}");
    let names = observed.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>();
    assert_eq!(names, [GENERATOR, "node-1"]);
    for series in observed.nodes.iter().chain([&observed.machine]) {
        assert!(series.at.is_sorted_by(|a, b| a < b), "{:?}", series.at);
        for (column, values) in &series.columns {
            assert_eq!(values.len(), series.at.len(), "{column:?}");
            let steady = !column.is_counter() || values.is_sorted();
            assert!(steady, "a counter never goes back: {column:?} {values:?}");
        }
    }
    let [ours, _] = &observed.nodes[..] else { unreachable!() };
    assert!(ours.columns[&Column::Processes].iter().all(|&one| one == 1.0), "nodes are not us");
    assert!(ours.columns[&Column::Threads].last() >= Some(&2.0));
    assert!(ours.columns[&Column::SwitchesVoluntary].last() > Some(&0.0));
    let [burning, resting] = &observed.phases[..] else { panic!("{:?}", observed.phases) };
    assert!(burning.name == PhaseName::Load.text() && burning.from < burning.to);
    assert!(resting.from == burning.to && resting.to >= resting.from);
    let near = |time: f64| observed.machine.at.iter().any(|at| (0.0..0.5).contains(&(time - at)));
    assert!(near(burning.from) && near(burning.to), "each phase begins after a look");
}

#[test]
fn cpu_wait_of_a_thread_is_counted() {
    let dir = TempDir::new().unwrap();
    // Two busy processes on one CPU each wait half of the time.
    let burn = "while :; do :; done";
    let mut spec = sh(&dir, &format!("sh -c '{burn}' & {burn}"));
    spec.limits = Some(study::Limits { cpu: None, memory: None, cpus: vec![0] });
    let process = launch(spec).unwrap();
    let sampler = Sampler::start(dir.path(), INTERVAL_MIN, clock::now());
    sampler.watch(process.watched());
    if newest(&sampler, "node-1", Column::CpuWait) < 0.0 {
        return; // a kernel that does not count it
    }
    wait_for("waiting", || newest(&sampler, "node-1", Column::CpuWait) > 0.2);
}

#[test]
fn disk_space_of_a_node_includes_all_its_files() {
    let dir = TempDir::new().unwrap();
    let script = "mkdir -p a/b; head -c 300000 /dev/urandom > a/b/c; sync; echo; exec sleep 60";
    let process = launch(sh(&dir, script)).unwrap();
    let mut sampler = Sampler::start(dir.path(), INTERVAL_MIN, clock::now());
    sampler.watch(process.watched());
    wait_for("the file", || {
        sampler.phase(PhaseName::Starting);
        newest(&sampler, "node-1", Column::DataDirectory) >= 300_000.0
    });
    assert!(newest(&sampler, "node-1", Column::DataDirectory) < 400_000.0);
}

#[test]
fn grid_sample_gives_way_to_a_requested_one() {
    let dir = TempDir::new().unwrap();
    let mut observer = Observer::new(dir.path(), Duration::from_secs(3600), clock::now());
    observer.watch(SampledProcess::ourselves());
    observer.sample(Occasion::Grid);
    observer.sample(Occasion::Grid);
    assert_eq!(observer.machine_series.at.len(), 1, "too soon");
    std::thread::sleep(Duration::from_millis(2));
    let first = observer.machine_series.at[0];
    observer.sample(Occasion::Asked);
    assert_eq!(observer.machine_series.at.len(), 1, "it took the first one's place");
    assert!(observer.machine_series.at[0] > first);
    std::thread::sleep(Duration::from_millis(2));
    observer.sample(Occasion::Asked);
    assert_eq!(observer.machine_series.at.len(), 2, "what was asked for stays");
    let rows = observer.nodes[0].series.columns.values().map(Vec::len);
    assert!(rows.clone().count() > 5 && rows.clone().all(|rows| rows == 2));
}

#[test]
fn samples_when_measuring_begins_and_ends() {
    let dir = TempDir::new().unwrap();
    let began = clock::now();
    let sampler = Sampler::start(dir.path(), Duration::from_secs(3600), began);
    let (begin, end) = (Duration::from_millis(60), Duration::from_millis(90));
    sampler.tell.send(Moment::Begin(began + begin)).unwrap();
    sampler.tell.send(Moment::End(began + end)).unwrap();
    wait_for("two looks", || lock(&sampler.observer).machine_series.at.len() >= 2);
    let looks = sampler.stop().machine.at;
    // Times of samples are rounded down.
    let meant = |moment: Duration| looks.iter().any(|at| *at >= moment.as_secs_f64() - 1e-4);
    assert!(looks.len() == 3 && meant(begin) && meant(end), "{looks:?}");
}

#[test]
fn throttled_time_continues_over_restarts() {
    let mut throttled = ContinuedCounter::default();
    let seen = [0.0, 1.5, 2.0, 0.5, 3.0, 0.0].map(|seen| throttled.take(seen));
    assert_eq!(seen, [0.0, 1.5, 2.0, 2.5, 5.0, 5.0]);
}

#[test]
fn expensive_samples_wait_for_their_share() {
    let now = clock::now();
    let mut pace = Pace::new(THOROUGH);
    assert!(pace.is_due(now));
    pace.taken(now, clock::thread_cpu());
    pace.cost = Duration::from_micros(10);
    assert!(!pace.is_due(now + Duration::from_millis(890)));
    assert!(pace.is_due(now + Duration::from_millis(900)));
    pace.cost = Duration::from_millis(10);
    assert!(!pace.is_due(now + Duration::from_millis(3_990)), "10 ms each 4 s");
    assert!(pace.is_due(now + Duration::from_secs(4)));
}

/// Kilobytes that a shell holds in a variable.
const HELD_KB: usize = 40_000;

#[test]
fn memory_pause_is_set_by_the_previous_reading() {
    let dir = TempDir::new().unwrap();
    let began = clock::now();
    let mut observer = Observer::new(dir.path(), Duration::from_secs(1), began);
    let at = |seconds: f64| began + Duration::from_secs_f64(seconds);
    observer.read_memory(at(0.5));
    assert_eq!(observer.memory_due(), None, "nothing is measured");
    observer.window_began(at(1.0));
    for (reading, due) in [(1.05, 1.15), (2.0, 3.0), (5.0, 9.0), (9.0, 13.9)] {
        observer.read_memory(at(reading));
        // A pause that grew with each sample would never end.
        observer.read_memory_between(at(reading + 0.05));
        let seen = observer.memory_due().unwrap().duration_since(began).as_secs_f64();
        assert!((seen - due).abs() < 0.01, "{seen} after the reading at {reading} s");
    }
    observer.window_ended(at(12.0));
    assert_eq!(observer.memory_due(), None);
}

#[test]
fn memory_allocated_in_a_short_window_is_read_within_it() {
    let dir = TempDir::new().unwrap();
    // It allocates the memory on command, long after the launch.
    let script = format!(
        "while [ ! -e go ]; do sleep 0.01; done; x=$(head -c {HELD_KB}000 /dev/zero | tr '\\0' a); \
         touch took; while :; do sleep 1; done"
    );
    let process = launch(sh(&dir, &script)).unwrap();
    let began = clock::now();
    let mut sampler = Sampler::start(dir.path(), Duration::from_secs(1), began);
    sampler.watch(process.watched());
    sampler.phase(PhaseName::Load);
    let from = began.elapsed().as_secs_f64();
    sampler.tell.send(Moment::Begin(clock::now())).unwrap();
    std::fs::write(process.dir().join("go"), "").unwrap();
    wait_for("memory", || process.dir().join("took").exists());
    sampler.tell.send(Moment::End(clock::now())).unwrap();
    let to = began.elapsed().as_secs_f64();
    wait_for("the reading at the end", || {
        let observer = lock(&sampler.observer);
        let series = observer.memory.iter().find(|one| one.name == "node-1");
        series.is_some_and(|one| one.at.last() >= Some(&(to - 1e-4)))
    });
    sampler.phase(PhaseName::Stopping);
    let observed = sampler.stop();
    let servers = crate::usage::MachineServers { observed: &observed, names: None };
    let memory = crate::usage::memory(&[servers], &[(from, to + 1.0)]).unwrap();
    assert!(memory.sum_max_bytes > HELD_KB as u64 * 1000, "{memory:?} {:?}", observed.memory);
    assert!(observed.nodes.iter().all(|one| !one.columns.contains_key(&Column::Proportional)));
}
