//! The API on a private unix socket.
