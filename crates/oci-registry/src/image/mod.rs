//! Images as files: built from directories and files, kept in OCI layouts, packed into archives.

pub mod archive;
pub mod builder;
pub mod layout;
pub mod tar;
