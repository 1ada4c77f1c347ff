//! Answers the kernel's FUSE requests from an image.
//!
//! The kernel may cache names, attributes and pages: all changes pass through it, and after a cut the image is mounted
//! anew. Without FUSE's writeback cache each `write` arrives at once, and dirty pages of a mapped file arrive before
//! the sync that asks for them. The kernel turns `O_SYNC`, `O_DSYNC` and `msync` into syncs.
//!
//! Not here: what a sync makes durable (`image`).

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bakeoff_clock::wall;
use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs,
    ReplyWrite, Request, Session, TimeOrNow, WriteFlags,
};

use crate::content::BLOCK;
use crate::fault::{Gate, Purpose};
use crate::image::{Attributes, Image, Kind, Replace};

/// Time for which the kernel may cache names and attributes.
const CACHED: Duration = Duration::from_secs(60);
/// Time that a sync takes, as on a disk. A server that acknowledges before its sync has ended is found by it.
const SYNC_TAKES: Duration = Duration::from_millis(1);
/// Threads that answer requests, so that syncs overlap.
const THREADS: usize = 8;

/// Type bits of a mode; `inode(7)`.
const TYPE: u32 = 0o170_000;
const SOCKET: u32 = 0o140_000;
const PIPE: u32 = 0o010_000;
const REGULAR: u32 = 0o100_000;
/// Modes of `fallocate`; `fallocate(2)`.
const KEEP_SIZE: i32 = 1;
const PUNCH_HOLE: i32 = 2;
const ZERO_RANGE: i32 = 16;

/// An image that is shared with the thread that cuts the power.
pub(crate) type SharedImage = Arc<Mutex<Image>>;

/// Locks an image.
pub(crate) fn lock(image: &SharedImage) -> MutexGuard<'_, Image> {
    image.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Mounts an image behind a gate. Dropping the session unmounts it.
pub(crate) fn mount(
    image: SharedImage,
    gate: Arc<Gate>,
    dir: &Path,
) -> io::Result<BackgroundSession> {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("bakeoff".to_owned()),
        MountOption::Subtype("bakeoff".to_owned()),
        MountOption::DefaultPermissions,
    ];
    config.n_threads = Some(THREADS);
    let disk = MountedImage { image, gate, listings: Mutex::default(), next: AtomicU64::new(1) };
    Session::new(disk, dir, &config)?.spawn()
}

/// Entries of a directory: name, number and type.
type Listing = Vec<(OsString, u64, FileType)>;

struct MountedImage {
    image: SharedImage,
    gate: Arc<Gate>,
    /// Entries of open directories, so that a listing is not disturbed by changes.
    listings: Mutex<HashMap<u64, Listing>>,
    next: AtomicU64,
}

impl MountedImage {
    fn image(&self) -> MutexGuard<'_, Image> {
        lock(&self.image)
    }

    fn listings(&self) -> MutexGuard<'_, HashMap<u64, Listing>> {
        self.listings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Syncs a file or directory, now or when the disk does.
    fn sync(&self, inode: u64, data_only: bool, reply: ReplyEmpty) {
        std::thread::sleep(SYNC_TAKES);
        let image = Arc::clone(&self.image);
        let sync = move || done(reply, lock(&image).sync(inode, data_only));
        match self.gate.hold(Purpose::Sync) {
            None => sync(),
            Some(hold) => hold.until_due(sync),
        }
    }

    fn create_entry(
        &self,
        at: (INodeNo, &OsStr),
        kind: Kind,
        mode: u32,
        by: &Request,
    ) -> Result<FileAttr, Errno> {
        let mut image = self.image();
        let attributes = Attributes::new(mode & 0o7777, (by.uid(), by.gid()), now());
        let inode = image.create((at.0.0, at.1), kind, attributes).map_err(errno)?;
        described(&image, inode)
    }
}

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs_f64(wall::seconds().max(0.0))
}

fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from_i32(error.raw_os_error())
}

fn file_type(kind: &Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Link(_) => FileType::Symlink,
        Kind::Special(SOCKET) => FileType::Socket,
        Kind::Special(_) => FileType::NamedPipe,
    }
}

fn described(image: &Image, inode: u64) -> Result<FileAttr, Errno> {
    let Attributes { mode, uid, gid, accessed, modified, changed } =
        image.attributes(inode).map_err(errno)?;
    let (kind, size, blocks, nlink) = image.shape(inode).map_err(errno)?;
    Ok(FileAttr {
        ino: INodeNo(inode),
        size,
        blocks: blocks * (BLOCK / 512) as u64,
        atime: accessed,
        mtime: modified,
        ctime: changed,
        crtime: changed,
        kind: file_type(&kind),
        perm: mode as u16,
        nlink,
        uid,
        gid,
        rdev: 0,
        blksize: BLOCK as u32,
        flags: 0,
    })
}

fn entered(reply: ReplyEntry, found: Result<FileAttr, Errno>) {
    match found {
        Ok(attributes) => reply.entry(&CACHED, &attributes, Generation(0)),
        Err(error) => reply.error(error),
    }
}

fn done(reply: ReplyEmpty, done: Result<(), rustix::io::Errno>) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}

impl Filesystem for MountedImage {
    fn lookup(&self, _by: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let image = self.image();
        let found = image.lookup(parent.0, name).map_err(errno);
        entered(reply, found.and_then(|inode| described(&image, inode)));
    }

    fn getattr(&self, _by: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match described(&self.image(), inode.0) {
            Ok(attributes) => reply.attr(&CACHED, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _by: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _changed: Option<SystemTime>,
        _file: Option<FileHandle>,
        _created: Option<SystemTime>,
        _checked: Option<SystemTime>,
        _backed_up: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let now = now();
        let mut image = self.image();
        let at = |time| match time {
            TimeOrNow::SpecificTime(time) => time,
            TimeOrNow::Now => now,
        };
        let resized = size.map_or(Ok(()), |size| image.resize(inode.0, size, now));
        let set = resized.and_then(|()| {
            let attributes = image.attributes_mut(inode.0)?;
            attributes.mode = mode.map_or(attributes.mode, |mode| mode & 0o7777);
            attributes.uid = uid.unwrap_or(attributes.uid);
            attributes.gid = gid.unwrap_or(attributes.gid);
            attributes.accessed = accessed.map_or(attributes.accessed, at);
            attributes.modified = modified.map_or(attributes.modified, at);
            attributes.changed = now;
            Ok(())
        });
        match set.map_err(errno).and_then(|()| described(&image, inode.0)) {
            Ok(attributes) => reply.attr(&CACHED, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn readlink(&self, _by: &Request, inode: INodeNo, reply: ReplyData) {
        match self.image().shape(inode.0) {
            Ok((Kind::Link(to), ..)) => reply.data(to.as_bytes()),
            Ok(_) => reply.error(Errno::EINVAL),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn mknod(
        &self,
        by: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _device: u32,
        reply: ReplyEntry,
    ) {
        let kind = match mode & TYPE {
            0 | REGULAR => Kind::File,
            bits @ (SOCKET | PIPE) => Kind::Special(bits),
            _ => return reply.error(Errno::EPERM),
        };
        entered(reply, self.create_entry((parent, name), kind, mode, by));
    }

    fn mkdir(
        &self,
        by: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        entered(reply, self.create_entry((parent, name), Kind::Directory, mode, by));
    }

    fn symlink(
        &self,
        by: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let kind = Kind::Link(target.as_os_str().to_owned());
        entered(reply, self.create_entry((parent, name), kind, 0o777, by));
    }

    fn unlink(&self, _by: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(reply, self.image().unlink((parent.0, name), false, now()));
    }

    fn rmdir(&self, _by: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(reply, self.image().unlink((parent.0, name), true, now()));
    }

    fn rename(
        &self,
        _by: &Request,
        from: INodeNo,
        old: &OsStr,
        to: INodeNo,
        new: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to) = ((from.0, old), (to.0, new));
        let mut image = self.image();
        let renamed = match flags {
            RenameFlags::RENAME_EXCHANGE => image.exchange(from, to, now()),
            RenameFlags::RENAME_NOREPLACE => image.rename(from, to, Replace::No, now()),
            _ if flags.is_empty() => image.rename(from, to, Replace::Yes, now()),
            _ => Err(rustix::io::Errno::INVAL),
        };
        done(reply, renamed);
    }

    fn link(
        &self,
        _by: &Request,
        inode: INodeNo,
        parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        let mut image = self.image();
        let linked = image.link(inode.0, (parent.0, name), now()).map_err(errno);
        entered(reply, linked.and_then(|()| described(&image, inode.0)));
    }

    fn open(&self, _by: &Request, inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        match self.image().opened(inode.0) {
            Ok(()) => reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn create(
        &self,
        by: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        match self.create_entry((parent, name), Kind::File, mode, by) {
            Ok(attributes) => {
                self.image().opened(attributes.ino.0).ok();
                let flags = FopenFlags::FOPEN_KEEP_CACHE;
                reply.created(&CACHED, &attributes, Generation(0), FileHandle(0), flags);
            }
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _by: &Request,
        inode: INodeNo,
        _file: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.image().read(inode.0, offset, size as usize) {
            Ok(data) => reply.data(&data),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn write(
        &self,
        _by: &Request,
        inode: INodeNo,
        _file: FileHandle,
        offset: u64,
        data: &[u8],
        _how: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let write = move |image: &SharedImage, data: &[u8]| match lock(image).write(
            inode.0,
            offset,
            data,
            now(),
        ) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(errno(error)),
        };
        match self.gate.hold(Purpose::Write) {
            None => write(&self.image, data),
            Some(hold) => {
                let (image, data) = (Arc::clone(&self.image), data.to_vec());
                hold.until_due(move || write(&image, &data));
            }
        }
    }

    fn release(
        &self,
        _by: &Request,
        inode: INodeNo,
        _file: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.image().closed(inode.0);
        reply.ok();
    }

    fn fsync(
        &self,
        _by: &Request,
        inode: INodeNo,
        _file: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.sync(inode.0, data_only, reply);
    }

    fn opendir(&self, _by: &Request, inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let image = self.image();
        let listed = image.entries(inode.0).and_then(|entries| {
            let dots = [(".", inode.0), ("..", image.lookup(inode.0, OsStr::new(".."))?)];
            let dots = dots.map(|(name, inode)| (OsString::from(name), inode));
            let all = dots.into_iter().chain(entries);
            all.map(|(name, inode)| Ok((name, inode, file_type(&image.shape(inode)?.0)))).collect()
        });
        match listed {
            Ok(listing) => {
                let number = self.next.fetch_add(1, Ordering::Relaxed);
                self.listings().insert(number, listing);
                reply.opened(FileHandle(number), FopenFlags::empty());
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readdir(
        &self,
        _by: &Request,
        _inode: INodeNo,
        file: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        if let Some(listing) = self.listings().get(&file.0) {
            let left = listing.iter().enumerate().skip(offset as usize);
            for (index, (name, inode, kind)) in left {
                if reply.add(INodeNo(*inode), index as u64 + 1, *kind, name) {
                    break;
                }
            }
        }
        reply.ok();
    }

    fn releasedir(
        &self,
        _by: &Request,
        _inode: INodeNo,
        file: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.listings().remove(&file.0);
        reply.ok();
    }

    fn fsyncdir(
        &self,
        _by: &Request,
        inode: INodeNo,
        _file: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.sync(inode.0, data_only, reply);
    }

    fn statfs(&self, _by: &Request, _inode: INodeNo, reply: ReplyStatfs) {
        let (all, used) = self.image().room();
        let (blocks, free) = (all / BLOCK as u64, all.saturating_sub(used) / BLOCK as u64);
        reply.statfs(blocks, free, free, 1 << 20, 1 << 20, BLOCK as u32, 255, BLOCK as u32);
    }

    fn fallocate(
        &self,
        _by: &Request,
        inode: INodeNo,
        _file: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mut image = self.image();
        let end = offset.saturating_add(length);
        let (size, keeps) = match image.shape(inode.0) {
            Ok((_, size, ..)) => (size, mode & KEEP_SIZE != 0),
            Err(error) => return reply.error(errno(error)),
        };
        if end.saturating_sub(size) > image.room().0 {
            return reply.error(Errno::ENOSPC);
        }
        let zeroed = match mode & !KEEP_SIZE {
            0 => image.reserve(inode.0, offset, end),
            PUNCH_HOLE | ZERO_RANGE => image.zero(inode.0, offset, length, now()),
            _ => return reply.error(Errno::EOPNOTSUPP),
        };
        done(
            reply,
            zeroed.and_then(|()| match keeps || end <= size {
                true => Ok(()),
                false => image.resize(inode.0, end, now()),
            }),
        );
    }
}
