"""From a model to one functional aten graph whose inputs have names and roles."""
