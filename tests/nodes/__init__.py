"""Nodes for a control plane without kubelets: an agent that runs pods as real processes of this machine, as root.

A Job of a test thus really runs buildah, with the user, capabilities, mounts, variables and deadline that a cluster
would give it, and pushes to a real registry on loopback. A folder's conftest.py imports `fixtures.workers`; a test then
has one node per architecture:

    @pytest.mark.cluster
    @pytest.mark.tools
    def test_it(plane: ControlPlane, namespace: str, workers: Workers) -> None:
        plane.api.create(f"/apis/batch/v1/namespaces/{namespace}/jobs", {...})

- `workers.names[Arch.ARM64]`: a node's name. `workers.agent.evict(namespace, pod)`: as a kubelet under pressure does.
  `workers.agent.lose(node)`: the machine is gone, and nothing is heard of it; `.serve(node)`: it is back, empty.
  `workers.agent.running()`: the pods of which there still is a process.
- Images are names: those of `world.IMAGES` run, with this machine's programs and the image's own users and settings
  (`resolve.Image`); any other is ErrImagePull. Programs are this machine's own whatever the node's architecture: let
  `tests.servers.binfmt` run those of others.
- A field that is not honoured fails the pod, reason Unsupported, by name. `spec` has the list, and what differs.
- Nothing outlives the process that entered the agent but logs in its folder.

Modules, each using only those before it: `linux` (kernel calls), `plan` (what is to be run), `rootfs` and `volumes`
(what a container sees), `supervisor` (its processes); `spec`, `environment` and `resolve` (from a pod to a plan),
`status`, `run` (one pod), `logs`, `agent`; `world` (pods without a control plane), `fixtures`.
"""
