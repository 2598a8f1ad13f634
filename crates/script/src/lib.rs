//! Scripts in k6's language: one QuickJS runtime per virtual user, on a stack of its own.
