//! What is said on the wire: requests, answers, problems. No IO.
