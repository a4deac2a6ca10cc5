//! The grammar against what Docker documents, and the properties that policies lean on.
