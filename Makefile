VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed

.PHONY: demo test test-slow lint bench clean

demo: $(STAMP)
	$(PY) -m deepinfer_neuron demo

test: $(STAMP) lint
	PYTHONDONTWRITEBYTECODE= $(PY) -m pytest -n auto --dist loadfile

test-slow: $(STAMP)
	$(PY) -m pytest -m slow

lint: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/basedpyright --level error

bench: $(STAMP)
	$(PY) -m deepinfer_neuron bench steps

# torch is pinned first: a bare range may resolve to a CUDA build of several GB.
$(STAMP): pyproject.toml
	python3 -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(PY) -m pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) build *.egg-info
