//! Whole-product suites live beside this file, one folder each.
