"""A client of the REST API: the store and the facades of an app whose store URL is that of an API.

`ApiClient` has the verbs of a Store that the API offers; `database_only` names the others. The Remote* facades replace
those of `control` where one request does what they do in several steps.
"""
