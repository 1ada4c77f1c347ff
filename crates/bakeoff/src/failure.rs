//! Defines the failures of a command and the table of exit codes.

/// Commands fail in the same ways as machines do.
pub(crate) use bakeoff_fleet::error::FleetError as Failure;

/// Table of exit codes for `--help`.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    done; every trial is valid
  1    done, but at least one trial is not valid; the report gives the reason
  2    bad input: a study, an option or a record
  3    a program is missing and could not be fetched
  4    servers could not be started or reached
  5    this machine refused a resource: files, disk space or sockets
  6    compare, gate: a condition of --fail-if is proven; verify: the record is inconsistent;
       judge: the history is not linearizable; reproduce: a claim is contradicted
  7    compare, gate: no condition is proven, and at least one is inconclusive;
       judge: the history could not be decided;
       reproduce: no claim is contradicted, but not all are replicated
  130  interrupted; results so far are stored";

/// Exit code of a run with an invalid trial.
pub(crate) const NOT_VALID: u8 = 1;
/// Exit code if servers could not be started or reached.
pub(crate) const UNREACHABLE: u8 = 4;
/// Exit code if a condition is proven.
pub(crate) const PROVEN: u8 = 6;
/// Exit code if no condition is proven, and at least one is inconclusive.
pub(crate) const CANNOT_TELL: u8 = 7;
