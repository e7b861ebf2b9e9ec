"""LLVM: text of functions, and the machine code that becomes of it."""
