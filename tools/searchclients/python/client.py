"""Asks a server of finished jobs the same questions as the Go clients (../client), through the official client in Python
for Elasticsearch or for OpenSearch. The arguments are its package, the server's URL, and a directory with
documents.json and questions.json."""

import importlib
import json
import sys
from pathlib import Path

package, url, directory = sys.argv[1:]
helpers = importlib.import_module(package + ".helpers")
if package == "elasticsearch":
    from elasticsearch import ApiError as Failure, Elasticsearch as Client

    def status(failure):
        return failure.status_code, failure.body

else:
    from opensearchpy import OpenSearch as Client, TransportError as Failure

    def status(failure):
        return failure.status_code, failure.info


patience = {"request_timeout" if package == "elasticsearch" else "timeout": 300}
client = Client(url, http_compress=True, max_retries=0, **patience)
documents = json.loads(Path(directory, "documents.json").read_text())
questions = json.loads(Path(directory, "questions.json").read_text())
INDEX, PAGE = "vale", 17


def show(name, ask):
    """Prints an answer, or the server's error as the client has it. Every other error ends the program."""
    out = {"name": name}
    try:
        answer = ask()
        out["answer"] = getattr(answer, "body", answer)
    except Failure as failure:
        code, body = status(failure)
        cause = body["error"]
        out["failure"] = {"class": Failure.__name__, "status": code, "type": cause["type"], "reason": cause["reason"]}
    print(json.dumps(out))
    return "failure" not in out


def search(body):
    if package == "elasticsearch":
        # The client renames parameters that are keywords of Python or begin with an underscore.
        named = {"from": "from_", "_source": "source"}
        return client.search(index=INDEX, **{named.get(name, name): value for name, value in body.items()})
    return client.search(index=INDEX, body=body)


def bulk():
    stored, errors = helpers.bulk(
        client, ({"_index": INDEX, "_source": d} for d in documents[1:]), chunk_size=50, refresh=True
    )
    if errors:
        raise RuntimeError(errors)
    return stored


def walk():
    """Returns the ids of all jobs, page by page."""
    ids, after = [], None
    while True:
        body = {"size": PAGE, "sort": [{"@end": "desc"}, "jobid"], "_source": False}
        if after:
            body["search_after"] = after
        hits = search(body)["hits"]["hits"]
        for hit in hits:
            ids.append(hit["_id"])
            after = hit["sort"]
        if len(hits) < PAGE:
            return ids


# The two clients name the document and the query differently.
counted = {"query": {"term": {"state": "FAILED"}}}
elastic = package == "elasticsearch"
show("info", client.info)
show("index", lambda: client.index(index=INDEX, refresh="true", **{"document" if elastic else "body": documents[0]}))
show("bulk", bulk)
show("mapping", lambda: client.indices.get_mapping(index=INDEX))
show("count", lambda: client.count(index=INDEX, **(counted if elastic else {"body": counted})))
searches = []
for question in questions:
    if show(question["name"], lambda: search(question["body"])):
        searches += [{}, question["body"]]
show("msearch", lambda: client.msearch(index=INDEX, **{"searches" if elastic else "body": searches}))
show("absent", lambda: client.search(index="absent"))
show("walk", walk)
