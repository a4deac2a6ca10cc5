//! Quantities against Kubernetes' documented forms and an independent big-integer oracle.
