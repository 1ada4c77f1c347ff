//! Simulations of the statistics, with seeds: what they promise is counted.

mod calibration;
mod gate;
