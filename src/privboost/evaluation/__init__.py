"""How good a model is on rows that are private: counted with noise, at a stated price."""
