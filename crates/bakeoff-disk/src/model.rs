//! Compares an image with a simple model over random operations, syncs and cuts, and checks each rule by itself.
//!
//! The model knows of each file all contents since its last sync, and the names after each change. After a cut the names
//! must be those after some change, no earlier than syncs demand. Each sector must be of one of the file's contents.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::time::SystemTime;

use super::content::{BLOCK, SECTOR};
use super::image::{Attributes, Dice, Image, Kind, ROOT, Replace, UnsyncedFate};

const NOW: SystemTime = SystemTime::UNIX_EPOCH;

type Place = (u64, &'static str);
type Names = BTreeMap<(u64, String), u64>;

fn image() -> Image {
    Image::new(Attributes::new(0o700, (0, 0), NOW), 1 << 30)
}

fn at((dir, name): Place) -> (u64, &'static OsStr) {
    (dir, OsStr::new(name))
}

/// Returns all names below the root with their files, directories included.
fn names(image: &Image) -> Names {
    let mut names = Names::new();
    let mut dirs = vec![ROOT];
    while let Some(dir) = dirs.pop() {
        for (name, inode) in image.entries(dir).unwrap() {
            if image.entries(inode).is_ok() {
                dirs.push(inode);
            }
            names.insert((dir, name.into_string().unwrap()), inode);
        }
    }
    names
}

fn contents(image: &Image, inode: u64) -> Vec<u8> {
    image.read(inode, 0, usize::MAX >> 1).unwrap()
}

fn create(image: &mut Image, place: Place, kind: Kind) -> u64 {
    image.create(at(place), kind, Attributes::new(0o600, (0, 0), NOW)).unwrap()
}

/// A file with these contents, synced.
fn synced(image: &mut Image, place: Place, contents: &[u8]) -> u64 {
    let file = create(image, place, Kind::File);
    image.write(file, 0, contents, NOW).unwrap();
    image.sync(file, false).unwrap();
    file
}

fn found(image: &Image, place: Place) -> Option<Vec<u8>> {
    image.lookup(at(place).0, at(place).1).ok().map(|inode| contents(image, inode))
}

fn rename(image: &mut Image, from: Place, to: Place) {
    image.rename(at(from), at(to), Replace::Yes, NOW).unwrap();
}

#[test]
fn unsynced_writes_names_and_truncations_are_lost() {
    let mut image = image();
    let file = synced(&mut image, (ROOT, "a"), b"12345");
    synced(&mut image, (ROOT, "gone"), b"back");
    image.write(file, 1, b"xx", NOW).unwrap();
    image.write(file, 5, b"678", NOW).unwrap();
    image.resize(file, 2, NOW).unwrap();
    create(&mut image, (ROOT, "new"), Kind::File);
    image.unlink(at((ROOT, "gone")), false, NOW).unwrap();
    rename(&mut image, (ROOT, "a"), (ROOT, "b"));
    let dropped = image.cut(1, UnsyncedFate::Lost);
    assert_eq!(found(&image, (ROOT, "a")).unwrap(), b"12345");
    assert_eq!(found(&image, (ROOT, "gone")).unwrap(), b"back");
    assert_eq!(names(&image).len(), 2);
    assert_eq!((dropped.bytes, dropped.files, dropped.names, dropped.syncs), (2, 1, 4, 2));
}

#[test]
fn sync_of_a_new_file_commits_its_name_and_all_before() {
    let mut image = image();
    synced(&mut image, (ROOT, "old"), b"1");
    let dir = create(&mut image, (ROOT, "dir"), Kind::Directory);
    rename(&mut image, (ROOT, "old"), (dir, "renamed"));
    synced(&mut image, (dir, "new"), b"2");
    create(&mut image, (dir, "later"), Kind::File);
    image.cut(1, UnsyncedFate::Lost);
    assert_eq!(found(&image, (dir, "renamed")).unwrap(), b"1");
    assert_eq!(found(&image, (dir, "new")).unwrap(), b"2");
    assert_eq!(found(&image, (dir, "later")), None);
}

#[test]
fn overwriting_in_place_commits_no_rename_of_another_file() {
    for data_only in [true, false] {
        let mut image = image();
        let log = synced(&mut image, (ROOT, "log"), &[0; 3 * BLOCK]);
        synced(&mut image, (ROOT, "tmp"), b"1");
        rename(&mut image, (ROOT, "tmp"), (ROOT, "final"));
        image.write(log, 5, b"x", NOW).unwrap();
        image.sync(log, data_only).unwrap();
        image.cut(1, UnsyncedFate::Lost);
        assert!(found(&image, (ROOT, "tmp")).is_some(), "the rename was not synced");
        assert_eq!(found(&image, (ROOT, "log")).unwrap()[5], b'x');
    }
}

#[test]
fn writing_preallocated_blocks_commits_the_journal() {
    let mut image = image();
    let log = create(&mut image, (ROOT, "log"), Kind::File);
    image.resize(log, 1 << 26, NOW).unwrap();
    image.sync(log, false).unwrap();
    synced(&mut image, (ROOT, "tmp"), b"1");
    rename(&mut image, (ROOT, "tmp"), (ROOT, "final"));
    image.write(log, 5, b"x", NOW).unwrap();
    image.sync(log, true).unwrap();
    image.cut(1, UnsyncedFate::Lost);
    assert!(found(&image, (ROOT, "final")).is_some());
    assert_eq!(contents(&image, log).len(), 1 << 26);
}

#[test]
fn sync_of_a_directory_commits_its_names_and_no_data() {
    let mut image = image();
    let file = create(&mut image, (ROOT, "a"), Kind::File);
    image.write(file, 0, b"1", NOW).unwrap();
    image.sync(ROOT, false).unwrap();
    image.cut(1, UnsyncedFate::Lost);
    assert_eq!(found(&image, (ROOT, "a")).unwrap(), b"");
}

#[test]
fn replacing_by_rename_leaves_the_old_file_or_all_of_the_new_one() {
    let long = vec![7; 3 * BLOCK + 5];
    let mut seen = BTreeSet::new();
    for seed in 0..64 {
        let mut image = image();
        synced(&mut image, (ROOT, "a"), b"old");
        let new = create(&mut image, (ROOT, "a.tmp"), Kind::File);
        image.write(new, 0, &long, NOW).unwrap();
        rename(&mut image, (ROOT, "a.tmp"), (ROOT, "a"));
        image.cut(seed, if seed == 0 { UnsyncedFate::Lost } else { UnsyncedFate::PartlyKept });
        let now = found(&image, (ROOT, "a")).unwrap();
        assert!(now == b"old" || now == long, "seed {seed}: {} bytes", now.len());
        seen.insert(now == long);
    }
    assert_eq!(seen.len(), 2, "both outcomes happen");
}

#[test]
fn kept_blocks_come_in_any_order_and_the_last_one_is_torn() {
    let (mut gaps, mut torn) = (0, 0);
    for seed in 0..200 {
        let mut image = image();
        let file = synced(&mut image, (ROOT, "a"), &[1; 4 * BLOCK]);
        image.write(file, 0, &[2; 4 * BLOCK], NOW).unwrap();
        image.cut(seed, UnsyncedFate::PartlyKept);
        let now = contents(&image, file);
        let blocks: Vec<bool> = now.chunks(BLOCK).map(|block| block[0] == 2).collect();
        gaps += usize::from(blocks.windows(2).any(|two| two == [false, true]));
        let is_torn = |block: &[u8]| block[0] == 2 && block[BLOCK - 1] == 1;
        torn += usize::from(now.chunks(BLOCK).any(is_torn));
        assert!(now.chunks(SECTOR).all(|sector| sector.iter().all(|&byte| byte == sector[0])));
    }
    assert!(gaps > 50 && torn > 50, "{gaps} {torn}");
}

#[test]
fn new_blocks_are_there_only_with_all_changes_before_them() {
    let mut seen = BTreeSet::new();
    for seed in 0..100 {
        let mut image = image();
        let file = synced(&mut image, (ROOT, "a"), &[1; BLOCK]);
        create(&mut image, (ROOT, "before"), Kind::File);
        image.write(file, BLOCK as u64, &[2; BLOCK], NOW).unwrap();
        image.cut(seed, UnsyncedFate::PartlyKept);
        let is_longer = contents(&image, file).len() > BLOCK;
        let is_named = found(&image, (ROOT, "before")).is_some();
        assert!(is_named || !is_longer, "seed {seed}: its transaction comes after the name");
        seen.insert((is_named, is_longer));
    }
    assert_eq!(seen.len(), 3);
}

#[test]
fn files_without_a_name_stay_readable_until_they_are_closed() {
    let mut image = image();
    let file = synced(&mut image, (ROOT, "a"), b"1");
    image.opened(file).unwrap();
    image.unlink(at((ROOT, "a")), false, NOW).unwrap();
    assert_eq!(contents(&image, file), b"1");
    image.closed(file);
    assert_eq!(image.room().1, 0);
}

#[test]
fn a_full_file_system_refuses_writes() {
    let mut image = Image::new(Attributes::new(0o700, (0, 0), NOW), 1 << 20);
    let file = create(&mut image, (ROOT, "a"), Kind::File);
    let refused = image.write(file, 0, &[1; 2 << 20], NOW).unwrap_err();
    assert_eq!(refused, rustix::io::Errno::NOSPC);
    assert_eq!(contents(&image, file), b"");
}

/// Follows an image without looking into it.
#[derive(Default)]
struct Model {
    /// Names after each change since the last cut; the first are those at the cut.
    history: Vec<Names>,
    /// First of them that a cut may leave.
    certain: usize,
    /// Last change that a sync of a file or directory has to make durable.
    touched: BTreeMap<u64, usize>,
    /// Contents of each file since its last sync, that one included.
    versions: BTreeMap<u64, Vec<Vec<u8>>>,
}

impl Model {
    fn begin(image: &Image) -> Self {
        let names = names(image);
        let files = names.values().filter(|&&inode| image.entries(inode).is_err());
        let versions = files.map(|&file| (file, vec![contents(image, file)])).collect();
        Self { history: vec![names], versions, ..Self::default() }
    }

    fn names_changed(&mut self, image: &Image, of: &[u64]) {
        self.history.push(names(image));
        let last = self.history.len() - 1;
        self.touched.extend(of.iter().map(|&inode| (inode, last)));
    }

    fn written(&mut self, image: &Image, file: u64) {
        let version = contents(image, file);
        self.versions.entry(file).or_default().push(version);
    }

    fn synced(&mut self, inode: u64) {
        self.certain = self.certain.max(self.touched.get(&inode).copied().unwrap_or(0));
        if let Some(versions) = self.versions.get_mut(&inode) {
            versions.drain(..versions.len() - 1);
        }
    }

    /// Panics unless a cut may have left this image.
    fn check(&self, image: &Image, what: &str) {
        let now = names(image);
        let known = self.history[self.certain..].contains(&now);
        assert!(
            known,
            "{what}: no cut leaves {now:?}, but one of {:?}",
            &self.history[self.certain..]
        );
        for file in now.values().filter(|&&inode| image.entries(inode).is_err()) {
            let (now, versions) = (contents(image, *file), &self.versions[file]);
            let sizes = || versions.iter().map(Vec::len);
            let (least, most) = (sizes().min().unwrap(), sizes().max().unwrap());
            assert!((least..=most).contains(&now.len()), "{what}: {} bytes", now.len());
            for (start, sector) in (0..).step_by(SECTOR).zip(now.chunks(SECTOR)) {
                let byte = |version: &Vec<u8>, at| version.get(start + at).copied().unwrap_or(0);
                // A hole may be punched into an older content: its blocks are another change.
                let is_zeroed = |at| versions.iter().any(|version| byte(version, at) == 0);
                let is_of = |version: &Vec<u8>| {
                    (sector.iter().enumerate()).all(|(at, &found)| {
                        found == byte(version, at) || found == 0 && is_zeroed(at)
                    })
                };
                assert!(
                    versions.iter().any(is_of),
                    "{what}: file {file} of {} at {start}: {:?}.. none of {:?}",
                    now.len(),
                    &sector[..sector.len().min(4)],
                    versions.iter().map(|v| (v.len(), v.get(start..start + 4))).collect::<Vec<_>>(),
                );
            }
        }
    }
}

/// Makes random operations, then cuts.
fn exercise(seed: u64) {
    let mut dice = Dice(seed << 20);
    let mut image = image();
    let dir = create(&mut image, (ROOT, "d"), Kind::Directory);
    image.sync_all();
    let mut model = Model::begin(&image);
    for round in 0..4 {
        for _ in 0..dice.below(40) {
            step(&mut dice, &mut image, &mut model, dir);
        }
        let unsynced =
            if dice.below(3) == 0 { UnsyncedFate::Lost } else { UnsyncedFate::PartlyKept };
        image.cut(dice.below(u64::MAX), unsynced);
        model.check(&image, &format!("seed {seed}, cut {round}, {unsynced:?}"));
        model = Model::begin(&image);
    }
}

fn step(dice: &mut Dice, image: &mut Image, model: &mut Model, dir: u64) {
    const NAMES: [&str; 4] = ["a", "b", "c", "e"];
    let place =
        |dice: &mut Dice| ([ROOT, dir][dice.below(2) as usize], NAMES[dice.below(4) as usize]);
    let (one, other) = (place(dice), place(dice));
    let file = image.lookup(at(one).0, at(one).1).ok();
    match (dice.below(16), file) {
        (0..=3, None) => {
            let file = create(image, one, Kind::File);
            model.versions.insert(file, vec![Vec::new()]);
            model.names_changed(image, &[one.0, file]);
        }
        (0..=5, Some(file)) => {
            let offset = dice.below(4 * BLOCK as u64);
            let data = vec![1 + dice.below(255) as u8; 1 + dice.below(2 * BLOCK as u64) as usize];
            image.write(file, offset, &data, NOW).unwrap();
            model.written(image, file);
        }
        (6, Some(file)) => {
            image.resize(file, dice.below(5 * BLOCK as u64), NOW).unwrap();
            model.written(image, file);
        }
        (7, Some(file)) => {
            let (offset, length) = (dice.below(4 * BLOCK as u64), dice.below(2 * BLOCK as u64));
            image.zero(file, offset, length, NOW).unwrap();
            model.written(image, file);
        }
        (8, Some(file)) => {
            image.resize(file, 0, NOW).unwrap();
            model.written(image, file);
            image.write(file, 0, &[9; BLOCK + 9], NOW).unwrap();
            model.written(image, file);
            image.closed(file);
        }
        (9, Some(file)) => {
            image.unlink(at(one), false, NOW).unwrap();
            model.names_changed(image, &[one.0, file]);
        }
        (10, Some(file)) if image.lookup(at(other).0, at(other).1) != Ok(file) => {
            rename(image, one, other);
            model.names_changed(image, &[one.0, other.0, file]);
        }
        (11, Some(file)) if image.lookup(at(other).0, at(other).1).is_err() => {
            image.link(file, at(other), NOW).unwrap();
            model.names_changed(image, &[other.0, file]);
        }
        (12..=13, Some(file)) => {
            image.sync(file, false).unwrap();
            model.synced(file);
        }
        (14, Some(file)) => {
            image.sync(file, true).unwrap();
            // Of names, `fdatasync` only has to make the file's own creation durable.
            let touched = model.touched.remove(&file);
            model.synced(file);
            model.touched.extend(touched.map(|touched| (file, touched)));
        }
        (15, _) => {
            let dir = [ROOT, dir][dice.below(2) as usize];
            image.sync(dir, false).unwrap();
            model.synced(dir);
        }
        _ => {}
    }
}

#[test]
fn a_cut_leaves_what_was_synced_and_only_what_was_written() {
    (0..4_000).for_each(exercise);
}
