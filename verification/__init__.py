"""What passes, lowering and compiling do to a step: pass by pass, operator by operator, region by region."""
