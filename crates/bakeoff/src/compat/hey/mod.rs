//! `bakeoff hey`: the command line and output of hey.
