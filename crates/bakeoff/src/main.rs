//! placeholder
mod engine;
mod kv;
fn main() {}
