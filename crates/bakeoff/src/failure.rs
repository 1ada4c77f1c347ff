//! Failures of a command, and the exit code of each.

/// A command that failed: what a run's machines can refuse is what a command can.
pub(crate) use bakeoff_fleet::error::FleetError as Failure;

/// The meaning of exit codes; `--help` prints this table.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    done; every trial is valid
  1    done, and at least one trial is not valid: the report says why
  2    bad input: a study, a flag, a record
  3    a program is missing and could not be fetched
  4    servers could not be started or reached
  5    this machine refused something: files, disk space, sockets
  6    compare, gate: a condition of --fail-if is proven; verify: the record is inconsistent;
       reproduce: a claim is contradicted
  7    compare, gate: no condition is proven, and of one or more nobody can tell;
       reproduce: no claim is contradicted, and not all are replicated
  130  interrupted; what was measured by then is kept";

/// A run in which at least one trial is not valid.
pub(crate) const NOT_VALID: u8 = 1;
/// Servers that could not be started or reached.
pub(crate) const UNREACHABLE: u8 = 4;
