"""Forward passes: one module a runtime, with the same contract (`laya._pipeline.engine.Forward`)."""
