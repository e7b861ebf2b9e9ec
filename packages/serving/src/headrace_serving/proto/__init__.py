"""Messages of the Open Inference Protocol's gRPC form."""
