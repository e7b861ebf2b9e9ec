"""What users hold to let concurrent steps and threads work together: queues and those who fill them."""
