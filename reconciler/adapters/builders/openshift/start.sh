# What a Build's container runs: makes up for what a Build cannot say, then runs job.sh.
#
# A Build of the Custom strategy has no command: the image's own is run. That of stock images is bash, which reads the
# file that BASH_ENV names, this one, before anything else. An image with a command of its own has to end in
#
#   exec /bin/sh "$BASH_ENV"
#
# Besides what job.sh needs:
#
#   JOB_REPOSITORIES            folder that RUN sees as /etc/yum.repos.d; empty for none
#   BUILD_REGISTRIES_CONF_PATH  registries.conf with the cluster's mirrors, from OpenShift; may not be there
unset BASH_ENV
set -eu

mkdir -p "$JOB_WORK" "$JOB_EXTRAS"
[ -z "$JOB_REPOSITORIES" ] || ln -sfn "$JOB_REPOSITORIES" "$JOB_EXTRAS/yum.repos.d"

# job.sh prefers its own, which it has where registries are configured as insecure.
if [ -s "${BUILD_REGISTRIES_CONF_PATH:-}" ]; then
    CONTAINERS_REGISTRIES_CONF=$BUILD_REGISTRIES_CONF_PATH
    export CONTAINERS_REGISTRIES_CONF
fi

exec /bin/sh "$JOB_INPUT/job.sh"
