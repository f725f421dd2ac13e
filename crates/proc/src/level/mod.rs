//! What this machine can hold a tree with, found out by trying.
