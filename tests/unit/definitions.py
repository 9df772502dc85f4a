"""Small definitions for tests of the core and of plans."""

from __future__ import annotations


def mosc(pool: str, *, annotations: str = "", inline: str = "", push: str = "") -> str:
    """A sound MachineOSConfig; `annotations` and `inline` are YAML to put in."""
    text = f"""\
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineOSConfig
metadata:
  name: {pool}
"""
    if annotations:
        text += f"  annotations: {{{annotations}}}\n"
    text += f"""\
spec:
  machineConfigPool: {{name: {pool}}}
  imageBuilder: {{imageBuilderType: Job}}
  renderedImagePushSecret: {{name: push}}
  renderedImagePushSpec: {push or f"registry.example.com/os/{pool}:latest"}
"""
    if inline:
        text += "  containerFile:\n  - content: |\n" + "".join(
            f"      {line}\n" for line in inline.splitlines()
        )
    return text


def config(architectures: str = "amd64, arm64", rest: str = "") -> str:
    """A reconciler.yaml."""
    return (
        "apiVersion: reconciler.machineos.dev/v1alpha1\n"
        f"kind: RepositoryConfig\narchitectures: [{architectures}]\n{rest}"
    )
