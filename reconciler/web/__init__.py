"""The web server: health, metrics, status and webhooks, for whoever watches the daemon or pushes to a repository.

`app` says which pages there are, `webhook` who may ask for a look, `signatures` how that is proven, `metrics` what is
counted, and `server` binds the address and serves in a thread of its own. Nothing here reads a repository, waits for a
pass or decides anything: what must be known is asked of callables, and a webhook is no more than "look now".
"""
