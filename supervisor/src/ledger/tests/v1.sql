-- The first schema as it was released.
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE sources (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, root BLOB NOT NULL, root_device INTEGER
);
CREATE TABLE documents (
    number INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, source INTEGER NOT NULL, identity BLOB NOT NULL,
    path TEXT NOT NULL, parent BLOB, root BLOB, position INTEGER NOT NULL, revision INTEGER NOT NULL,
    state TEXT NOT NULL, why TEXT, class TEXT, kind TEXT, stage TEXT, sha256 BLOB, kept BLOB,
    next_attempt INTEGER, queue INTEGER, rest TEXT NOT NULL
);
CREATE INDEX documents_by_path ON documents (source, path);
CREATE INDEX documents_by_state ON documents (source, state);
CREATE INDEX documents_by_kind ON documents (kind, state, stage, class, source) WHERE kind IS NOT NULL;
CREATE INDEX documents_due ON documents (queue, source) WHERE queue IS NOT NULL;
CREATE INDEX documents_retrying ON documents (source, next_attempt) WHERE state = 'retrying';
CREATE INDEX documents_by_parent ON documents (parent, position) WHERE parent IS NOT NULL;
CREATE INDEX documents_by_root ON documents (root) WHERE root IS NOT NULL;
CREATE INDEX documents_by_content ON documents (sha256) WHERE sha256 IS NOT NULL;
CREATE INDEX documents_by_text ON documents (kept, id) WHERE kept IS NOT NULL;
CREATE TABLE directories (
    id INTEGER PRIMARY KEY, source INTEGER NOT NULL, path BLOB NOT NULL, parent INTEGER, name BLOB NOT NULL,
    alive INTEGER NOT NULL DEFAULT 0, UNIQUE (source, path)
);
CREATE INDEX directories_by_parent ON directories (parent, name, alive);
CREATE TABLE items (
    directory INTEGER NOT NULL, name BLOB NOT NULL, id BLOB NOT NULL, size INTEGER, mtime_ns INTEGER,
    ctime_ns INTEGER, dev INTEGER, ino INTEGER, state TEXT NOT NULL, kind TEXT, leaving INTEGER NOT NULL,
    PRIMARY KEY (directory, name)
) WITHOUT ROWID;
CREATE TABLE events (
    seq INTEGER PRIMARY KEY, doc INTEGER NOT NULL, at INTEGER NOT NULL, expects INTEGER, revision INTEGER,
    change TEXT NOT NULL
);
CREATE INDEX events_by_document ON events (doc);
CREATE TABLE counters (
    source INTEGER NOT NULL, state TEXT NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (source, state)
) WITHOUT ROWID;
CREATE TABLE in_hand (doc INTEGER PRIMARY KEY, stage TEXT NOT NULL, alone INTEGER NOT NULL);
CREATE TABLE runs (
    id INTEGER PRIMARY KEY, began INTEGER NOT NULL, boot_id TEXT, ended INTEGER, end TEXT
);
PRAGMA user_version = 1;
