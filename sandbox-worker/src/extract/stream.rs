//! stub: the one place that inflates into memory
