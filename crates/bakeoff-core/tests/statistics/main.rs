//! Simulations of the statistics, with seeds. They count false alarms and found differences.

mod calibration;
mod evidence;
mod gate;
