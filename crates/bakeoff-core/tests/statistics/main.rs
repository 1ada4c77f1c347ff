//! Simulates the statistics, with seeds, and counts false alarms and detected differences.

mod calibration;
mod change_points;
mod clusters;
mod evidence;
mod gate;
mod lateness;
mod order;
mod sequential;
